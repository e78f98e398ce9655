"""What callers who mean harm send: each of these once got further than it may."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.api.chapters.events import EventIn
from headway.api.wire.bodies import decode_body
from headway.api.wire.cursors import make_cursor
from headway.api.wire.problems import Refused
from headway.define.machine import START

JSON = {"Content-Type": "application/json"}


def test_a_workers_key_gives_it_no_other_kinds(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    acme.enqueue("welcome", {"user_id": 1})
    acme.enqueue("report", queue="mail")
    ask = client(acme.create_api_key("w", "worker", queues=["mail"], kinds=["welcome"]).text)
    asked = {"worker_id": str(uuid4()), "limit": 10, "kinds": ["report"]}
    assert ask.post("/worker/jobs/claim", json=asked).json()["jobs"] == []


def test_what_a_worker_says_of_itself_harms_nobody(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, viewer = client(keys["worker"]), client(keys["viewer"])
    for kind in (f"m@{'9' * 5_000}", "m@0", "m@", "a\0b", "x" * 200, ""):
        said = ask.post("/worker/jobs/claim", json={"worker_id": str(uuid4()), "kinds": [kind]})
        assert (kind, said.status_code) == (kind, 422)
    odd = {"worker_id": str(uuid4()), "kinds": ["order@2"]}
    assert ask.post("/worker/jobs/claim", json=odd).status_code == 200
    assert viewer.get("/machines").json()["items"] == [{"kind": "order", "versions": [2], "steps": {}, "more": False}]

    worker = str(uuid4())
    for _ in range(2):
        app.tenant("acme").enqueue("report")
    one, two = ask.post("/worker/jobs/claim", json={"worker_id": worker, "limit": 2}).json()["jobs"]
    twice = [{"id": one["id"], "fence": 1}, {"id": one["id"].upper(), "fence": 1, "error": "boom"}]
    assert ask.post("/worker/settle", json={"worker_id": worker, "jobs": twice}).status_code == 422
    said = {"worker_id": worker, "fence": 1}
    failed = ask.post(f"/worker/jobs/{one['id']}/fail", json=said | {"error": "boom", "exit_code": 2**70})
    assert failed.status_code == 422
    for outcome in ({"version": 2**70}, {"version": 0}, {"signals": ["x"]}, {"signals": ["\0"]}):
        body = said | {"outcome": {"next": "a", "step": START, **outcome}}
        assert ask.post(f"/worker/jobs/{two['id']}/complete", json=body).status_code == 422, outcome


def test_a_tenants_worker_spawns_within_the_bounds_of_the_definition(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    ask, worker = client(keys["worker"]), str(uuid4())
    app.tenant("acme").enqueue("report")
    job = ask.post("/worker/jobs/claim", json={"worker_id": worker}).json()["jobs"][0]
    for option, status in (({"queue": "gpu"}, 403), ({"timeout": "9h"}, 403), ({"priority": 7}, 200)):
        spawn = {"spawn": [{"kind": "report", **option}]}
        body = {"worker_id": worker, "fence": 1, "outcome": spawn}
        assert ask.post(f"/worker/jobs/{job['id']}/complete", json=body).status_code == status


def test_null_takes_nothing_away_that_the_definition_says(app: Headway, client: Any, keys: dict[str, str]) -> None:
    code = Headway(app.url)

    @code.job(timeout="30s", concurrency=1, concurrency_key="k", rate="5/1m", partition="p")
    async def bound() -> None: ...

    code.run(until_idle=True)
    code.close()
    ask, admin, root = (client(keys[role]) for role in ("operator", "admin", "superadmin"))
    nulls: dict[str, None] = dict.fromkeys(("timeout", "concurrency", "rate", "partition", "concurrency_key"))
    made = ask.post("/jobs", json={"kind": "bound", **nulls}).json()["id"]
    job = app.get(made)
    assert (job.timeout_ms, job.concurrency, job.rate_count, job.partition) == (30_000, 1, 5, "p")
    for each in (ask, root):
        said = each.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 1}, "queue": None})
        assert (said.status_code, said.json().get("queue")) == (201, "mail"), said.text
    assert ask("PATCH", f"/jobs/{made}", json={"timeout": None}).status_code == 403
    acme = {"Headway-Tenant": "acme"}
    assert root("PATCH", f"/jobs/{made}", json={"timeout": None}, headers=acme).status_code == 200
    admin.post("/templates", json={"name": "plain", "kind": "bound"})
    for option in nulls:
        template = {"name": f"t-{option}", "kind": "bound", "options": {option: None}}
        trigger = {"trigger_type": "schedule", "cron": "@daily", "label": option, "kind": "bound"}
        for path, body in (
            ("/templates", template),
            ("/jobs/triggers", trigger | {"options": {option: None}}),
            ("/templates/plain/run", {"options": {option: None}}),
        ):
            assert admin.post(path, json=body).status_code == 403, (path, option)
    for option in ("tenant", "conn", "name", "payload", "self", "created_by", "source", "trace_id"):
        assert admin.post("/templates/plain/run", json={"options": {option: "x"}}).status_code == 422, option


def test_no_body_keeps_the_server_busy(client: Any, keys: dict[str, str]) -> None:
    """Each of these took many seconds, in which nobody else was answered; with work in proportion it takes none."""
    names = ",".join(f'"k{n}":1' for n in range(60_000))
    for body in (
        f'{{"name":"x","payload":{{{names},"k59999":1}}}}',
        '{"name":"x","payload":{"n":%s,"n":1}}' % ("9" * 5_000),
    ):
        with pytest.raises(Refused, match="twice in one object"):
            decode_body(body.encode(), None, EventIn)
    flat = '{"name":"x","payload":[%s{}]}' % ("{}," * 500_000)
    assert decode_body(flat.encode(), None, EventIn).name == "x"
    for deep in ("[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, "[{}," * 70 + "1" + "]" * 70):
        with pytest.raises(Refused, match="nested"):
            decode_body(b'{"name":"x","payload":%b}' % deep.encode(), None, EventIn)
    quoted = '"\\"' + "[" * 100 + '\\\\"'
    assert decode_body(b'{"name":"x","payload":[%b, []]}' % quoted.encode(), None, EventIn).name == "x"


def test_times_far_away_are_refused(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["viewer"])
    for timing in ({"cron": "@daily"}, {"every": "1s"}):
        for after in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z"):
            assert ask.post("/jobs/triggers/preview", json=timing | {"after": after}).status_code == 422


def test_a_nul_finds_nothing_and_breaks_nothing(client: Any, keys: dict[str, str]) -> None:
    ask, root = client(keys["admin"]), client(keys["superadmin"])
    for path in ("/queues/%00/jobs", "/trains/%00", "/templates/%00", "/jobs/%00"):
        assert ask.get(path).status_code == 404, path
    for path in ("/jobs?queue=%00", "/jobs?q=%00", "/jobs/triggers?event_name=%00", "/events?name=%00"):
        assert ask.get(path).status_code == 422, path
    assert root.get(f"/admin/tenants?cursor={make_cursor('tenants', chr(0))}").status_code == 422
    for chosen in ({"queue": ["\0"]}, {"train": "\0"}, {"unique_key": "\0"}):
        action = {"action": "cancel", "dry_run": True, "filter": chosen}
        assert ask.post("/jobs/actions", json=action).status_code == 422, chosen


def test_a_key_of_one_queue_sees_nothing_else_by_way_of_its_jobs(app: Headway, client: Any) -> None:
    acme, worker = app.tenant("acme"), str(uuid4())
    report = acme.enqueue("report").id
    hand = client(acme.create_api_key("w", "worker").text)
    hand.post("/worker/jobs/claim", json={"worker_id": worker})
    spawn = {"spawn": [{"kind": "welcome", "payload": {"user_id": 7}}, {"kind": "report"}]}
    body = {"worker_id": worker, "fence": 1, "outcome": spawn}
    assert hand.post(f"/worker/jobs/{report}/complete", json=body).status_code == 200
    ask = client(acme.create_api_key("reports", "operator", queues=["default"]).text)
    assert [each["kind"] for each in ask.get(f"/jobs/{report}/children").json()["items"]] == ["report"]

    mailing = acme.create_template("mailing", "welcome").id
    daily = acme.create_schedule("daily", "@daily", kind="welcome").id
    for path in ("/templates", "/jobs/triggers", f"/templates/{mailing}", f"/jobs/triggers/{daily}"):
        app._definitions.replace([])  # as in a server that has read none yet
        app._definitions.expire()
        said = ask.get(path)
        assert said.status_code == 404 or said.json()["items"] == [], path


def test_a_dry_run_reads_only_what_it_may_act_on(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    done, waiting = acme.enqueue("report").id, acme.enqueue("report").id
    acme.cancel(done)
    ask = client(keys["operator"])

    def found(action: str, **chosen: Any) -> list[str]:
        body = {"action": action, "dry_run": True, "filter": {"kind": ["report"], **chosen}}
        return [each["id"] for each in ask.post("/jobs/actions", json=body).json()["sample"]]

    assert (found("cancel"), found("retry")) == ([waiting], [done])
    assert found("cancel", status=["canceled"]) == found("retry", status=["queued"]) == []
    unknown = {"action": "cancel", "dry_run": True, "filter": {"status": ["nonsense"]}}
    assert ask.post("/jobs/actions", json=unknown).status_code == 422


def test_what_others_were_given_gives_callers_no_more(app: Headway, client: Any, keys: dict[str, str]) -> None:
    """A trigger and a template of the owner's, beyond what the definition lets enqueuers choose."""
    acme = app.tenant("acme")
    trigger = acme.create_schedule("gpu", "@daily", kind="report", options={"queue": "gpu"}).id
    acme.create_template("gpu", "report", options={"queue": "gpu"})
    ask, admin, root = (client(keys[role]) for role in ("operator", "admin", "superadmin"))
    assert ask.post(f"/jobs/triggers/{trigger}/run", json={"payload": {}}).status_code == 403
    assert ask.post("/jobs", json={"template": "gpu"}).status_code == 403
    for change, status in (({"payload": {"a": 1}}, 403), ({"cron": "* * * * *"}, 403), ({"label": "GPU"}, 200)):
        assert admin("PATCH", f"/jobs/triggers/{trigger}", json=change).status_code == status, change
    assert ask.post(f"/jobs/triggers/{trigger}/pause").status_code == 200
    as_acme = {"Headway-Tenant": "acme"}
    assert root.post(f"/jobs/triggers/{trigger}/run", json={}, headers=as_acme).status_code == 201
    assert root.post("/jobs", json={"template": "gpu"}, headers=as_acme).status_code == 201

    acme.enqueue("welcome", {"user_id": 1}, queue="vip", unique_key="k")
    narrow = client(acme.create_api_key("mailer", "producer", queues=["mail"]).text)
    job = {"kind": "welcome", "payload": {"user_id": 666}, "unique_key": "k", "on_conflict": "replace"}
    assert narrow.post("/jobs", json=job).status_code == 403
    assert acme.jobs(kind="welcome")[0].payload == {"user_id": 1}
    assert ask.post("/jobs", json=job).status_code == 200


def test_a_worker_that_names_queue_after_queue_fills_nothing(api: Any, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["worker"])

    def claim(worker: str, first: int) -> int:
        queues = [f"q{number}" for number in range(first, first + 100)]
        body = {"worker_id": worker, "queues": queues, "wait": 0.001}
        return int(ask.post("/worker/jobs/claim", json=body).status_code)

    worker = str(uuid4())
    assert [claim(worker, first) for first in range(0, 1_100, 100)] == [200] * 10 + [422]
    assert claim(str(uuid4()), 1_000) == claim(str(uuid4()), 1_100) == 200
    assert len(api._workers._waiting._queues) <= 1_100
