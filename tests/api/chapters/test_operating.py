"""Trains, groups, queues, limits, reservations, workers, machines and the audit over HTTP."""

from __future__ import annotations

from typing import Any

from headway import Headway
from headway.define.registry import Registry


def test_a_train_is_held_shown_skipped_and_cleared(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, acme = client(keys["operator"]), app.tenant("acme")
    cars = [acme.enqueue("report", train="dest/42").id for _ in range(3)]
    path = "/trains/dest/42"
    held = ask.post(f"{path}/hold", json={"reason": "wait"}).json()
    assert held["train"]["hold"]["reason"] == "wait"
    assert [car["id"] for car in ask.get(path).json()["cars"]] == cars
    assert [each["train"] for each in ask.get("/trains?blocked=true").json()["items"]] == ["dest/42"]
    assert ask.get("/trains?blocked=false").json()["items"] == []
    assert ask.post(f"{path}/skip", json={"job_id": cars[1]}).json() == {"id": cars[1], "status": "canceled"}
    assert ask.post("/trains/other/skip", json={"job_id": cars[2]}).status_code == 404
    assert ask.post(f"{path}/resume").json() == {"resumed": True}
    assert cars[2] in ask.post(f"{path}/clear").json()["canceled"]
    assert ask.get("/trains/nobody").status_code == 404
    acme.enqueue("report", train="mixed")
    acme.enqueue("welcome", {"user_id": 7}, train="mixed")
    mailer = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    assert mailer.post("/trains/mixed/hold", json={}).status_code == 403
    assert [car["kind"] for car in mailer.get("/trains/mixed").json()["cars"]] == ["welcome"]
    (shown,) = mailer.get("/trains").json()["items"]
    assert (shown["train"], shown["head_id"], shown["head_kind"]) == ("mixed", None, None), "its head is not the key's"


def test_a_group_is_shown_canceled_and_retried(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, acme = client(keys["operator"]), app.tenant("acme")
    group = acme.group([acme._definitions.build("report", {}, {}, now=0, limit=2**20) for _ in range(2)])
    made = ask.post("/groups", json={"jobs": [{"kind": "report"}] * 3, "callback": {"kind": "report"}}).json()
    assert (made["total"], made["group"]["tenant"], made["group"]["callback_id"] is not None) == (3, "acme", True)
    assert ask.post("/groups", json={"jobs": []}).status_code == 422
    assert ask.post("/groups", json={"jobs": [{"kind": "unheard_of"}]}).status_code == 422
    shown = ask.get(f"/groups/{group.id}").json()
    assert (shown["status"], shown["total"], shown["done"]) == ("running", 2, 0)
    assert set(ask.post(f"/groups/{group.id}/cancel", json={}).json()["statuses"].values()) == {"canceled"}
    retry, once = f"/groups/{group.id}/retry", {"Idempotency-Key": "k"}
    ids = ask.post(retry, headers=once).json()["ids"]
    assert len(ids) == 2
    again = ask.post(retry, headers=once)
    assert (again.json()["ids"], again.headers["idempotent-replayed"]) == (ids, "true")
    mailer = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    assert mailer.get(f"/groups/{group.id}").status_code == 404
    listed = ask.get("/groups").json()["items"]
    assert [(each["group"]["id"], each["total"]) for each in listed][-1] == (group.id, shown["total"])
    assert mailer.get("/groups").json()["items"] == []
    assert ask.get("/groups?cursor=x").status_code == 422


def test_what_tenants_share_is_the_super_admins(app: Headway, client: Any, keys: dict[str, str]) -> None:
    root, acme = client(keys["superadmin"]), app.tenant("acme")
    jobs = [acme.enqueue("welcome", {"user_id": number}, priority=9 - number).id for number in range(3)]
    changed = root("PATCH", "/queues/mail", json={"max_running": 4, "fair": True, "retention": {"dead": "9d"}}).json()
    assert (changed["max_running"], changed["fair"], changed["retention"]) == (4, True, {"dead": 777_600_000})
    wrong = root("PATCH", "/queues/mail", json={"max_running": 5, "retention": "soon"})
    assert (wrong.status_code, root.get("/queues/mail").json()["max_running"]) == (422, 4), "all of it, or nothing"
    in_order = root.get("/queues/mail/jobs?limit=2").json()
    rest = root.get(f"/queues/mail/jobs?cursor={in_order['next_cursor']}").json()
    assert [each["id"] for each in in_order["items"] + rest["items"]] == jobs[::-1]
    assert root.get("/queues/nowhere").status_code == 404
    assert "mail" in root.post("/queues/pause").json()["queues"]
    assert "mail" in root.post("/queues/resume").json()["queues"]

    assert root.post("/limits", json={"tenant": "acme", "max_pending": 9}).json()["max_pending"] == 9
    assert root.post("/limits", json={"kind": "report", "rate": "5/min"}).json()["rate_count"] == 5
    assert root.post("/limits", json={"tenant": "nobody", "max_running": 1}).status_code == 404
    assert root.post("/limits", json={"max_running": 1}).status_code == 422
    assert [each["scope"] for each in root.get("/limits").json()["items"]] == ["kind", "queue", "tenant"]
    _check_tags(root)

    made = root.post("/reservations", json={"queue": "gpu", "expires": "1m"}).json()
    assert root.post("/reservations", json={"queue": "gpu"}).status_code == 409
    again = root.post("/reservations", json={"queue": "gpu", "id": made["id"], "expires": "2m"}).json()
    assert again["expires_at"] > made["expires_at"]
    assert [each["id"] for each in root.get("/reservations").json()["items"]] == [made["id"]]
    assert root("DELETE", f"/reservations/{made['id']}").status_code == 204
    assert root("DELETE", f"/reservations/{made['id']}").status_code == 404

    done = root.get("/audit?limit=200").json()["items"]
    wanted = {"limit", "fair", "retention", "pause", "resume", "reserve", "unreserve"}
    mine = [each for each in done if each["action"] in wanted]
    assert {each["action"] for each in mine} == wanted
    assert all(each["actor"].startswith("key:") and each["request_id"] and each["address"] for each in mine)


def _check_tags(root: Any) -> None:
    """What was seen of a queue or limit may have changed since: then nothing is done."""
    seen = root.get("/queues/mail").headers["etag"]
    paused = root.post("/queues/mail/pause", headers={"If-Match": seen})
    assert (paused.status_code, root.get("/queues/mail").headers["etag"]) == (200, paused.headers["etag"])
    for method, path, body in (
        ("PATCH", "/queues/mail", {"max_running": 1, "fair": False}),
        ("POST", "/queues/mail/resume", None),
        ("POST", "/queues/nowhere/pause", None),
    ):
        said = root(method, path, json=body, headers={"If-Match": seen})
        assert (said.status_code, said.json()["code"]) == (412, "ChangedMeanwhile"), path
    queue = root.get("/queues/mail").json()
    assert (queue["paused"], queue["max_running"], queue["fair"]) == (True, 4, True)
    tag = {"If-Match": paused.headers["etag"]}
    assert root("PATCH", "/queues/mail", json={"max_running": 4}, headers=tag).status_code == 200
    assert root.post("/queues/mail/resume", headers=tag).status_code == 200
    limit = root.get("/limits/kind/report")
    tag = {"If-Match": limit.headers["etag"]}
    body = {"kind": "report", "max_running": 2}
    changed = root.post("/limits", json=body, headers=tag)
    assert (changed.status_code, root.post("/limits", json=body, headers=tag).status_code) == (200, 412)
    assert root.get("/limits/kind/report").headers["etag"] == changed.headers["etag"] != limit.headers["etag"]
    assert root.get("/limits/kind/order").status_code == 404


def test_the_audit_names_the_request_and_not_what_only_makes_jobs(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    ask, acme = client(keys["operator"]), app.tenant("acme")
    job = ask.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 7}}).json()["id"]
    ask.post("/events", json={"name": "paid"})
    ask.post(f"/jobs/{job}/signal", json={"name": "paid"})
    other = acme.enqueue("report").id
    ask.post(f"/jobs/{other}/cancel", json={})
    said = ask.post(f"/jobs/{job}/cancel", json={}, headers={"X-Request-Id": "my-request"})
    assert said.headers["x-request-id"] == "my-request"
    entries = ask.get("/audit").json()["items"]
    assert [(each["action"], each["job_id"]) for each in entries if each["job_id"]] == [
        ("cancel", job),
        ("cancel", other),
    ]
    assert (entries[0]["request_id"], entries[0]["address"]) == ("my-request", "127.0.0.1")
    assert {each["action"] for each in entries} == {"cancel", "key.created"}
    assert [each["action"] for each in ask.get(f"/jobs/{job}/audit").json()["items"]] == ["cancel"]
    page = ask.get("/audit?limit=1").json()
    assert ask.get(f"/audit?limit=1&cursor={page['next_cursor']}").json()["items"][0]["job_id"] == other
    assert ask.get("/audit?action=cancel&actor=nobody").json()["items"] == []
    mailer = client(acme.create_api_key("mailer", "viewer", queues=["mail"]).text)
    assert [each["job_id"] for each in mailer.get("/audit").json()["items"]] == [job]


def test_the_graph_of_a_machine_where_its_code_is(app: Headway, client: Any, keys: dict[str, str]) -> None:
    from headway import Machine, Next, Stop, step

    registry = Registry()

    @registry.machine
    class Checkout(Machine, version=3):
        @step
        async def start(self, ctx: Any) -> Any:
            return Next("pay")

        @step
        async def pay(self, ctx: Any) -> Any:
            return Stop("no")

    app.include(registry)
    ask = client(keys["viewer"])
    assert {"kind": "checkout", "versions": [3], "steps": {}, "more": False} in ask.get("/machines").json()["items"]
    found = ask.get("/machines/checkout/graph").json()
    assert (found["graph"]["version"], found["graph"]["steps"]) == (3, ["start", "pay"])
    assert "stateDiagram" in found["mermaid"]
    assert ask.get("/machines/checkout/graph?version=9").status_code == 404
    assert ask.get("/machines/nothing/graph").status_code == 404


def test_the_doctor_says_what_is_wrong_and_its_fix(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["superadmin"])
    assert ask.get("/doctor").json()["ok"]
    app.tenant("acme").enqueue("report")
    found = ask.get("/doctor").json()
    (wrong,) = [each for each in found["checks"] if each["status"] == "problem"]
    assert (found["ok"], wrong["name"], wrong["fix"]) == (
        False,
        "queues",
        "headway worker module:app --queues default",
    )
