"""Errors by fingerprint over HTTP: what a worker reports, what a tenant and a narrowed key see, and bulk actions."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from headway import Headway


def fail(app: Headway, client: Any, *jobs: Any, error: str = "KeyError: no user {}") -> None:
    """A worker over HTTP fails these jobs for good."""
    worker = client(app.create_api_key("fleet", "worker").text)
    worker_id = str(uuid4())
    queues = sorted({app.get(job.id).queue for job in jobs})
    claimed = worker.post("/worker/jobs/claim", json={"worker_id": worker_id, "queues": queues, "limit": 100}).json()[
        "jobs"
    ]
    for number, job in enumerate(claimed):
        body = {"worker_id": worker_id, "fence": job["fence"], "error": error.format(number), "retry": False}
        assert worker.post(f"/worker/jobs/{job['id']}/fail", json=body).status_code == 200


def test_errors_are_listed_shown_and_retried(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, other = app.tenant("acme"), app.tenant("other")
    jobs = [acme.enqueue("report", queue="slow") for _ in range(3)]
    mail = acme.enqueue("welcome", {"user_id": 1})
    strange = other.enqueue("report", queue="slow")
    fail(app, client, *jobs, strange)
    fail(app, client, mail, error="smtp is down\0" + 100_000 * "x")
    viewer, operator = client(keys["viewer"]), client(keys["operator"])
    for _folded in range(2):
        listed = viewer.get("/errors?order=count").json()
        assert [(each["kind"], each["count"], each["dead"], each["tenants"]) for each in listed["items"]] == [
            ("report", 3, 3, 1),
            ("welcome", 1, 1, 1),
        ]
        assert client(keys["superadmin"]).get("/errors?order=count").json()["items"][0]["count"] == 4
        first = viewer.get("/errors?order=count&limit=1").json()
        second = viewer.get(f"/errors?order=count&limit=1&cursor={first['next_cursor']}").json()
        assert first["items"] + second["items"] == listed["items"]
        name = listed["items"][0]["fingerprint"]
        shown = viewer.get(f"/errors/{name}").json()
        assert (shown["count"], shown["type"], shown["queue"]) == (3, "KeyError", "slow")
        assert shown["sample"].startswith("KeyError: no user ")
        assert {each["id"] for each in viewer.get(f"/jobs?error={name}").json()["items"]} == {job.id for job in jobs}
        assert [each["kind"] for each in viewer.get(f"/errors?job={mail.id}").json()["items"]] == ["welcome"]
        assert viewer.get(f"/errors?job={strange.id}").json()["items"] == []
        assert viewer.get("/errors?status=lost&kind=report").json()["items"] == []
        app.store.run(app.store.ops.fold_errors(limit=100))
    assert viewer.get(f"/errors?job={mail.id}").json()["items"][0]["message"].startswith("smtp is down\\x00xxx")
    for name_of_none in ("nonsense", name.upper(), name + "0", name[:-1] + "%0A"):
        for path in ("/errors/", "/jobs?error="):
            said = viewer.get(path + name_of_none)
            assert (said.status_code, "16 hexadecimal digits" in said.json()["detail"]) == (422, True), name_of_none
        for action in ("cancel", "retry"):
            body = {"action": action, "filter": {"error": name_of_none}, "dry_run": True}
            assert operator.post("/jobs/actions", json=body).status_code == 422
    assert viewer.get("/errors?status=dead").status_code == 422
    assert viewer.get(f"/errors?cursor={'x' * 20}").status_code in (400, 422)
    found = operator.post(
        "/jobs/actions", json={"action": "retry", "filter": {"error": name, "status": ["dead"]}, "expect": 3}
    )
    assert found.json()["done"] == 3, found.text
    assert app.get(strange.id).status == "dead"
    assert operator.get(f"/jobs?error={name}&status=queued").json()["items"][0]["kind"] == "report"


def test_a_key_for_some_queues_sees_the_errors_of_those(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    slow, fast = acme.enqueue("report", queue="slow"), acme.enqueue("report", queue="fast")
    fail(app, client, slow, fast)
    narrow = client(acme.create_api_key("n", "viewer", queues=["fast"]).text)
    (group,) = narrow.get("/errors").json()["items"]
    assert (group["count"], group["queue"], group["job_id"]) == (1, "fast", fast.id)
    assert narrow.get("/errors?queue=slow").json()["items"] == []
    assert narrow.get(f"/errors?job={slow.id}").json()["items"] == []
    assert narrow.get(f"/errors/{group['fingerprint']}").json()["count"] == 1
    other = client(acme.create_api_key("o", "viewer", kinds=["welcome"]).text)
    assert other.get(f"/errors/{group['fingerprint']}").status_code == 404
