"""Keys for some queues or kinds see and touch what is theirs: in lists, counts, histories, conflicts and spawns. What
another tenant's workers over HTTP are called is not shown either."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.testing import drain


@pytest.fixture
def mailer(app: Headway, client: Any) -> Any:
    """An operator of acme for the kind welcome alone."""
    return client(app.tenant("acme").create_api_key("mailer", "operator", kinds=["welcome"]).text)


def test_events_are_its_own_or_of_its_jobs(app: Headway, client: Any, keys: dict[str, str], mailer: Any) -> None:
    acme = app.tenant("acme")
    for name in ("succeeded", "canceled"):
        acme.create_trigger(f"on-{name}", f"headway.job.{name}", kind="order", payload={"n": 1})
    acme.cancel(acme.enqueue("report").id)
    acme.cancel(acme.enqueue("welcome", {"user_id": 1}).id)
    others = acme.emit("salary", {"of": "somebody"})
    own = mailer.post("/events", json={"name": "hello"}).json()["id"]
    seen = {each["id"]: each for each in mailer.get("/events").json()["items"]}
    assert own in seen
    assert others not in seen
    assert {each["payload"]["kind"] for each in seen.values() if each["job_id"]} == {"welcome"}
    assert len(client(keys["viewer"]).get("/events").json()["items"]) == 4
    for method, path in (("GET", f"/events/{others}"), ("POST", f"/events/{others}/retry")):
        assert mailer(method, path).status_code == 404
    assert mailer.get(f"/events/{own}").status_code == 200
    drain(app)


def test_counts_are_of_its_kinds(app: Headway, mailer: Any) -> None:
    acme = app.tenant("acme")
    acme.enqueue("report", queue="mail")
    mine = acme.enqueue("welcome", {"user_id": 1})
    acme.enqueue("welcome", {"user_id": 2})
    summary = mailer.get("/jobs/summary?by=queue").json()
    assert (summary["counts"], summary["by"]) == ({"queued": 2}, {"mail": {"queued": 2}})
    queued_at = mailer.get(f"/jobs/{mine.id}").json()["queued_at"]
    assert summary["oldest_queued_at"] == queued_at
    queue = mailer.get("/queues/mail").json()
    assert (queue["counts"], queue["oldest_queued_at"]) == ({"queued": 2}, queued_at)
    assert {each["name"]: each["counts"] for each in mailer.get("/queues").json()["items"]}["mail"] == {"queued": 2}


def test_a_taken_key_names_no_job_of_another_queue(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    mailer = client(acme.create_api_key("mailer", "producer", queues=["mail"]).text)
    secret = acme.enqueue("welcome", {"user_id": 9}, queue="vip", unique_key="k", idempotency_key="i").id
    new = {"kind": "welcome", "payload": {"user_id": 1}}
    for options in ({"unique_key": "k"}, {"unique_key": "k", "on_conflict": "raise"}, {"idempotency_key": "i"}):
        said = mailer.post("/jobs", json=new | options)
        assert (said.status_code, secret in said.text, "vip" in said.text) == (409, False, False), options
        batch = mailer.post("/jobs/batch", json={"jobs": [new, new | options, new]})
        assert (batch.status_code, secret in batch.text) == (409, False), options
    assert acme.counts() == {"queued": 1}, "nothing of a refused batch is stored"
    own = mailer.post("/jobs", json=new | {"unique_key": "mine"}).json()
    again = mailer.post("/jobs", json=new | {"unique_key": "mine"})
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, own["id"], False)
    taken = mailer.post("/jobs", json=new | {"unique_key": "mine", "on_conflict": "raise"})
    assert (taken.status_code, own["id"] in taken.text) == (409, True)
    assert client(keys["producer"]).post("/jobs", json=new | {"unique_key": "k"}).json()["id"] == secret


def test_a_worker_spawns_what_its_key_is_for(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    narrow = client(acme.create_api_key("w", "worker", queues=["default"], kinds=["report", "order"]).text)
    job_id, worker = acme.enqueue("report").id, str(uuid4())
    narrow.post("/worker/jobs/claim", json={"worker_id": worker})
    body: dict[str, Any] = {"worker_id": worker, "fence": 1}
    for child in ({"kind": "welcome", "payload": {"user_id": 1}}, {"kind": "order", "queue": "mail"}):
        said = narrow.post(f"/worker/jobs/{job_id}/complete", json=body | {"outcome": {"spawn": [child]}})
        assert said.status_code == 403, child
    assert acme.get(job_id).status == "running"
    child = {"kind": "order", "payload": {"n": 1}}
    assert (
        narrow.post(f"/worker/jobs/{job_id}/complete", json=body | {"outcome": {"spawn": [child]}}).status_code == 200
    )
    for kinds, count in ((["report"], 0), (["report", "order"], 1)):
        viewer = client(acme.create_api_key("v", "viewer", kinds=kinds).text)
        (step,) = viewer.get(f"/jobs/{job_id}/history").json()["items"]
        assert len(step["children"]) == count


def test_workers_of_another_tenant_are_not_shown(app: Headway, client: Any, keys: dict[str, str]) -> None:
    other = client(app.tenant("other").create_api_key("w", "worker").text)
    claim = {"worker_id": str(uuid4()), "queues": ["payroll"], "kinds": ["bonus@3"], "wait": 0.001}
    assert other.post("/worker/jobs/claim", json=claim).status_code == 200
    shared = client(app.create_api_key("all", "worker").text)
    claim = {"worker_id": str(uuid4()), "queues": ["shared"], "kinds": ["parcel@1"], "wait": 0.001}
    assert shared.post("/worker/jobs/claim", json=claim).status_code == 200
    theirs = client(app.tenant("other").create_api_key("v", "viewer").text)
    for ask, queues, kinds in (
        (client(keys["viewer"]), {"shared"}, {"parcel"}),
        (theirs, {"shared", "payroll"}, {"parcel", "bonus"}),
        (client(keys["superadmin"]), {"shared", "payroll"}, {"parcel", "bonus"}),
    ):
        names = {each["name"] for each in ask.get("/queues").json()["items"]}
        assert names & {"shared", "payroll"} == queues
        assert {each["kind"] for each in ask.get("/machines").json()["items"]} == kinds
        assert ask.get("/queues/payroll").status_code == (200 if "payroll" in queues else 404)


def test_a_template_and_a_group_take_no_job_of_another_queue(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    mailer = client(acme.create_api_key("mailer", "producer", queues=["mail"]).text)
    secret = acme.enqueue("welcome", {"user_id": 9}, queue="vip", unique_key="k").id
    template = acme.create_template("greet", "welcome", {"user_id": 1}).id
    for options in ({"on_conflict": "replace"}, {"on_conflict": "raise"}):
        taken = {"unique_key": "k"} | options
        run = mailer.post(f"/templates/{template}/run", json={"options": taken})
        group = mailer.post("/groups", json={"jobs": [{"kind": "welcome", "payload": {"user_id": 1}} | taken]})
        for said in (run, group):
            assert (said.status_code in (403, 409), secret in said.text) == (True, False), said.text
    assert (acme.get(secret).payload, acme.get(secret).queue) == ({"user_id": 9}, "vip")


def test_jobs_neither_wait_for_nor_join_what_the_key_does_not_see(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    mailer = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    job = {"kind": "welcome", "payload": {"user_id": 1}}
    hidden, nowhere = acme.enqueue("report", train="t").id, str(uuid4())
    group = acme.group([acme.build_job("report")]).id
    own = mailer.post("/jobs", json=job | {"train": "t"}).json()["id"]
    for option in ("after", "group"):
        for value in (hidden if option == "after" else group, nowhere):
            said = mailer.post("/jobs", json=job | {option: [value] if option == "after" else value})
            assert (said.status_code, "does not exist" in said.text) == (422, True), said.text
    for before in (hidden, nowhere):
        said = mailer.post(f"/jobs/{own}/move", json={"before": before})
        assert (said.status_code, "there is no job" in said.text) == (409, True), said.text
    train = mailer.get("/trains/t").json()
    assert (train["train"]["head_id"], train["train"]["head_kind"]) == (None, None)
    assert [each["id"] for each in train["cars"]] == [own]
    assert [(each["train"], each["head_id"]) for each in mailer.get("/trains").json()["items"]] == [("t", None)]
    why = " ".join(mailer.get(f"/jobs/{own}/why").json()["reasons"])
    assert (hidden in why, "train t" in why) == (False, True), why
    acme.enqueue("report", train="hidden")
    assert (mailer.get("/trains/hidden").status_code, len(mailer.get("/trains").json()["items"])) == (404, 1)
    assert mailer.post("/jobs", json=job | {"after": [own]}).status_code == 201


def test_a_group_with_a_callback_of_others_is_not_canceled(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    mailer = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    group = acme.group([acme.build_job("welcome", {"user_id": 1}, queue="mail")], callback=acme.build_job("report"))
    for action in ("cancel", "retry"):
        assert mailer.post(f"/groups/{group.id}/{action}").status_code == 403
    assert [each.status for each in acme.jobs(kind="report")] == ["held"]
    for said in (mailer.get(f"/groups/{group.id}").json(), mailer.get("/groups").json()["items"][0]):
        assert (said["group"]["id"], said["group"]["callback_id"]) == (group.id, None)


def test_a_trigger_is_of_the_queue_that_its_template_names(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    mailer = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    acme.create_template("vip", "welcome", {"user_id": 1}, options={"queue": "vip"})
    acme.create_template("plain", "welcome", {"user_id": 1})
    hidden, seen = (
        acme.create_schedule(name, cron="0 0 1 1 *", template=name, options=options).id
        for name, options in (("vip", {}), ("plain", {}))
    )
    over = acme.create_schedule("over", cron="0 0 1 1 *", template="vip", options={"queue": "mail"}).id
    assert [each["id"] for each in mailer.get("/jobs/triggers").json()["items"]] == [seen, over]
    for action in ("run", "pause", "resume", "test"):
        assert mailer.post(f"/jobs/triggers/{hidden}/{action}", json={}).status_code == 404
    assert acme.counts() == {}
    assert mailer.post(f"/jobs/triggers/{seen}/run", json={}).status_code == 201


def test_an_admin_of_some_kinds_administers_these_alone(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    narrow = client(acme.create_api_key("narrow", "admin", kinds=["welcome"]).text)
    wide = acme.create_api_key("wide", "viewer").key
    own = acme.create_api_key("own", "viewer", kinds=["welcome"]).key
    assert {each["name"] for each in narrow.get("/keys").json()["items"]} == {"narrow", "own"}
    for method in ("GET", "DELETE"):
        assert narrow(method, f"/keys/{wide.id}").status_code == 404
    assert narrow("DELETE", f"/keys/{own.id}").status_code == 200
    assert acme.api_key(wide.id).revoked_at is None
    hook = {"name": "hook", "kind": "connector.webhook.deliver", "url": "https://shop.example", "events": ["*"]}
    signals = {"name": "s", "trigger_type": "event", "event_name": "e", "signal": "paid", "to": "checkout:{{event.id}}"}
    for path, body in (
        ("/templates", {"name": "t"}),
        ("/jobs/triggers", {"name": "n", "trigger_type": "schedule", "cron": "0 2 * * *"}),
        ("/jobs/triggers", {"name": "e", "trigger_type": "event", "event_name": "paid"}),
    ):
        assert narrow.post(path, json=body | {"kind": "report"}).status_code == 403
        assert narrow.post(path, json=body | {"kind": "welcome"}).status_code == 201
    assert narrow.post("/connectors", json=hook).status_code == 403
    assert narrow.post("/jobs/triggers", json=signals).status_code == 403
    acme.create_template("others", "report", {})
    assert narrow("PATCH", "/templates/others", json={"description": "mine"}).status_code == 404
    assert narrow("PATCH", "/templates/t", json={"kind": "report"}).status_code == 403
    job = acme.enqueue("report")
    acme.cancel(job.id)
    assert narrow("DELETE", f"/jobs/{job.id}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "may"),
    [
        ("connector.report.generate", {"operator", "admin"}),  # it reads the ids, keys, tags and errors of all jobs
        ("connector.webhook.deliver", {"admin"}),  # what it sends is signed as ours
    ],
)
def test_a_connector_does_no_more_than_its_enqueuer_may(
    app: Headway, client: Any, keys: dict[str, str], kind: str, may: set[str]
) -> None:
    app.change_definition(kind, queue="default")
    acme = app.tenant("acme")
    acme.create_template("stored", kind, {})
    waiting = acme.enqueue(kind, {})
    roles = {"producer", "operator", "admin"}
    ways: list[tuple[str, str, Any]] = [
        ("POST", "/jobs", {"kind": kind}),
        ("POST", "/jobs", {"template": "stored"}),
        ("POST", "/templates/stored/run", {}),
        ("POST", "/jobs/batch", {"jobs": [{"kind": "order", "payload": {"n": 1}}, {"kind": kind}]}),
        ("POST", "/groups", {"jobs": [{"kind": kind}]}),
        ("POST", "/groups", {"jobs": [{"kind": "order", "payload": {"n": 1}}], "callback": {"kind": kind}}),
    ]
    for method, path, body in ways:
        allowed = {role for role in roles if client(keys[role])(method, path, json=body).status_code == 201}
        assert allowed == may, (path, body)
    changed = {
        role
        for role in roles
        if client(keys[role])("PATCH", f"/jobs/{waiting.id}", json={"payload": {"x": role}}).status_code == 200
    }
    assert changed == may
    schedule = acme.create_schedule("stored", every="1h", kind=kind)
    for payload, allowed in ((None, {"operator", "admin"}), ({"x": 1}, may)):
        ran = {
            role
            for role in roles
            if client(keys[role]).post(f"/jobs/triggers/{schedule.id}/run", json={"payload": payload}).status_code
            == 201
        }
        assert ran == allowed
