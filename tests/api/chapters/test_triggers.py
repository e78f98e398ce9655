"""Triggers, templates and definitions over HTTP, in the shape of the older contract."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway import Headway
from headway.model.ids import new_id

NIGHTLY = {
    "label": "Nightly provider sync",
    "trigger_type": "schedule",
    "cron_expr": "0 2 * * *",
    "timezone": "America/New_York",
    "definition_key": "welcome",
    "payload_template": {"user_id": 7},
}
ON_CHANGE = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "welcome",
    "payload_template": {"user_id": "{{event.user}}"},
    "dedupe_window_seconds": 120,
}


def test_a_schedule_and_an_event_trigger_live_as_the_contract_says(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    ask = client(keys["admin"])
    nightly = ask.post("/jobs/triggers", json=NIGHTLY)
    assert nightly.status_code == 201, nightly.text
    nightly = nightly.json()
    assert {name: nightly[name] for name in NIGHTLY} == NIGHTLY
    assert (nightly["name"], nightly["is_enabled"], nightly["type"]) == ("nightly-provider-sync", True, "schedule")
    again = ask.post("/jobs/triggers", json=NIGHTLY).json()
    assert again["name"].startswith("nightly-provider-sync-")
    assert ask.post("/jobs/triggers", json=NIGHTLY | {"name": nightly["name"]}).status_code == 409
    changed = ask.post("/jobs/triggers", json=ON_CHANGE).json()
    assert {name: changed[name] for name in ON_CHANGE} == ON_CHANGE

    first = ask.get("/jobs/triggers?limit=2").json()
    rest = ask.get(f"/jobs/triggers?limit=2&cursor={first['next_cursor']}").json()
    assert [each["id"] for each in first["items"] + rest["items"]] == [nightly["id"], again["id"], changed["id"]]
    assert [each["id"] for each in ask.get("/jobs/triggers?offset=2").json()["items"]] == [changed["id"]]
    for query in (
        *(
            "trigger_type=event",
            "type=event",
            "event=provider.folder.updated",
            "event_name=x&event_name=provider.folder.updated",
        ),
        "type=event&type=event&event=provider.folder.updated&event=x&event_name=x&event_name=provider.folder.updated",
    ):
        assert [each["id"] for each in ask.get(f"/jobs/triggers?{query}").json()["items"]] == [changed["id"]], query
    both = ask.get("/jobs/triggers?type=event&type=schedule").json()["items"]
    assert [each["id"] for each in both] == [nightly["id"], again["id"], changed["id"]]
    assert ask.get("/jobs/triggers?event=x&event=y").json()["items"] == []
    assert ask.get("/jobs/triggers?type=event&type=never").status_code == 422
    assert ask.get("/jobs/triggers?event=x&event=y&event_name=x").status_code == 422
    assert ask.get("/jobs/triggers?trigger_type=event&type=schedule").status_code == 422
    for bad in ({}, {"trigger_type": "event", "type": "schedule"}, {"type": "never"}):
        said = ask.post("/jobs/triggers", json={"label": "x", "event": "e", "kind": "welcome", **bad})
        assert (said.status_code, len(said.json()["errors"])) == (422, 1), said.text

    path = f"/jobs/triggers/{nightly['id']}"
    assert ask("PATCH", path, json={"label": "Syncs", "cron_expr": "0 3 * * *"}).json()["label"] == "Syncs"
    tag = {"If-Match": ask.get(path).headers["etag"]}
    assert ask("PATCH", path, json={"description": "syncs"}, headers=tag).status_code == 200
    assert ask("PATCH", path, json={"description": "again"}, headers=tag).status_code == 412
    assert ask.post(f"{path}/pause", headers=tag).status_code == 412
    preview = ask.get(f"{path}/preview?count=2").json()
    assert [time[11:16] for time in preview["local"]] == ["03:00", "03:00"]
    assert all(time.endswith("Z") for time in preview["times"]), "times are in UTC"
    assert [*map(datetime.fromisoformat, preview["times"])] == [*map(datetime.fromisoformat, preview["local"])]
    assert len(ask.post("/jobs/triggers/preview", json={"every": "1h", "count": 3}).json()["times"]) == 3
    assert ask.post(f"{path}/pause").json()["is_enabled"] is False
    assert ask.post(f"{path}/resume").json()["next_fire_at"] is not None
    assert ask.post(f"{path}/test", json={}).json()["payload"] == {"user_id": 7}
    trace = {"traceparent": f"00-{7:032x}-00000000000000aa-01"}
    fire = ask.post(f"{path}/run", json={"payload": {"user_id": 8}}, headers=trace).json()
    job = ask.get(f"/jobs/{fire['job_id']}").json()
    assert (job["payload"], job["source"], job["trace_id"]) == ({"user_id": 8}, "schedule", trace["traceparent"])
    made = ask.post("/templates", json={"name": "t", "definition_key": "welcome"}).json()
    assert (made["kind"], made["definition_key"]) == ("welcome", "welcome")
    ran = ask.post("/templates/t/run", json={"payload": {"user_id": 8}}, headers=trace).json()["id"]
    assert ask.get(f"/jobs/{ran}").json()["trace_id"] == trace["traceparent"]
    assert [each["id"] for each in ask.get(f"{path}/fires").json()["items"]] == [fire["id"]]
    tried = ask.post(f"/jobs/triggers/{changed['id']}/test", json={"payload": {"user": 9}}).json()
    assert (tried["met"], tried["payload"]) == (True, {"user_id": 9})
    unsaved = {name: value for name, value in ON_CHANGE.items() if name != "trigger_type"}
    tried = ask.post("/jobs/triggers/test", json=unsaved | {"sample": {"user": 9}}).json()
    assert (tried["met"], tried["payload"]) == (True, {"user_id": 9})
    assert ask.post("/jobs/triggers/test", json={"definition_key": "welcome"}).status_code == 422
    assert ask.post("/jobs/triggers/test", json=unsaved | {"options": {"queue": "default"}}).status_code == 403
    assert ask.post(f"/jobs/triggers/{changed['id']}/run", json={}).status_code == 409
    assert ask.get(f"/jobs/triggers/{changed['id']}/preview").status_code == 409
    assert ask("DELETE", path).status_code == 204
    assert ask.get(path).status_code == 404
    done = [each for each in app.audit_log(limit=1000) if each.action.startswith("trigger.")]
    assert {each.action for each in done} == {f"trigger.{what}" for what in ("created", "changed", "deleted", "run")}
    assert all(each.actor.startswith("key:") and each.request_id and each.address for each in done)


def test_what_is_wrong_with_a_trigger_is_said(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    for change, status in (
        ({"label": None}, 422),
        ({"cron_expr": "nonsense"}, 422),
        ({"timezone": "Mars/Olympus"}, 422),
        ({"definition_key": "unheard_of"}, 422),
        ({"event_name": "paid"}, 422),
        ({"kind": "report"}, 422),  # differs from definition_key
        ({"cron": "@daily", "cron_expr": "@hourly"}, 422),
        ({"payload_template": {"user_id": "{{event.user}}"}}, 422),
        ({"options": {"queue": "default"}}, 403),  # the definition does not let enqueuers choose it
        ({"trigger_type": "webhook"}, 422),
    ):
        said = ask.post("/jobs/triggers", json=NIGHTLY | change)
        assert said.status_code == status, (change, said.text)
    assert ask.post("/jobs/triggers", json=ON_CHANGE | {"event_name": "headway.odd"}).status_code == 422
    assert ask.get("/jobs/triggers?limit=0").status_code == 422
    assert ask.get("/jobs/triggers?offset=10001").status_code == 422
    assert ask.get("/jobs/triggers/nonsense").status_code == 404
    assert ask.get(f"/jobs/triggers/{new_id()}").status_code == 404


def test_a_trigger_gives_no_more_than_its_creator_may(app: Headway, client: Any, keys: dict[str, str]) -> None:
    admin = client(keys["admin"])
    chosen = ON_CHANGE | {"options": {"queue": "{{event.queue}}"}}
    app.change_definition("welcome", enqueuer_may={"queue": ["mail", "slow"]})
    app._definitions.expire()
    said = admin.post("/jobs/triggers", json=chosen)
    assert (said.status_code, "within bounds" in said.text) == (403, True)
    app.change_definition("welcome", enqueuer_may={"queue": True})
    app._definitions.expire()
    sent = admin.post("/jobs/triggers", json=chosen).json()
    path = f"/jobs/triggers/{sent['id']}"
    good = admin.post(f"{path}/test", json={"payload": {"user": 1, "queue": "slow"}}).json()
    assert (good["queue"], good["error"]) == ("slow", None)
    # narrowed later, it is narrowed, too
    app.change_definition("welcome", enqueuer_may={"queue": ["slow"]})
    app._definitions.expire()
    tried = {queue: {"payload": {"user": 1, "queue": queue}} for queue in ("slow", "default")}
    assert admin.post(f"{path}/test", json=tried["slow"]).json()["error"] is None
    assert "set queue to one of slow" in admin.post(f"{path}/test", json=tried["default"]).json()["error"]
    assert admin("PATCH", path, json={"options": {"queue": "default"}}).status_code == 403
    # an operator's key for another kind sees none of it
    other = client(app.tenant("acme").create_api_key("reports", "operator", kinds=["report"]).text)
    assert other.get("/jobs/triggers").json()["items"] == []
    assert other.post(f"{path}/pause").status_code == 404


def test_a_trigger_gives_no_more_by_a_template(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, admin = app.tenant("acme"), client(keys["admin"])
    acme.create_template("trusted", kind="welcome", payload={"user_id": 7}, options={"queue": "slow"})
    paid = {"event_name": "paid", "label": "Paid", "template": "trusted"}
    for path, sent in (("/jobs/triggers", paid | {"trigger_type": "event"}), ("/jobs/triggers/test", paid)):
        said = admin.post(path, json=sent)
        assert (said.status_code, "queue" in said.text) == (403, True), (path, said.text)
    ours = acme.create_trigger("ours", "paid", template="trusted")
    plain = acme.create_trigger("plain", "paid", kind="welcome", payload={"user_id": 8})
    for trigger, change in (
        (ours, {"payload": {"user_id": 9}}),
        (ours, {"payload": {"user_id": 9}, "options": {}}),
        (ours, {"template": "trusted"}),
        (plain, {"template": "trusted"}),
        (plain, {"template": "trusted", "kind": None}),
    ):
        assert admin("PATCH", f"/jobs/triggers/{trigger.id}", json=change).status_code == 403, change
    assert (acme.get_trigger("ours").payload, acme.get_trigger("plain").kind) == ({}, "welcome")
    assert admin("PATCH", f"/jobs/triggers/{ours.id}", json={"kind": "welcome", "template": None}).status_code == 200


def test_a_template_fills_no_jobs_that_its_writer_may_not_make(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, admin = app.tenant("acme"), client(keys["admin"])
    acme.create_template("plain", kind="welcome", payload={"user_id": 7})
    ours = acme.create_trigger("ours", "paid", template="plain", options={"queue": "slow"})
    for change in ({"payload": {"user_id": 9}}, {"options": {"priority": 1}}, {"kind": "report"}):
        said = admin("PATCH", "/templates/plain", json=change)
        assert (said.status_code, "queue" in said.text) == (403, True), (change, said.text)
    assert admin("PATCH", "/templates/plain", json={"description": "of users"}).status_code == 200
    root = client(keys["superadmin"])(
        "PATCH", "/templates/plain", json={"payload": {}}, headers={"Headway-Tenant": "acme"}
    )
    assert root.status_code == 200, root.text
    acme.change_trigger(ours.name, options=None)
    assert admin("PATCH", "/templates/plain", json={"payload": {"user_id": 9}}).status_code == 200


def test_null_is_as_good_as_nothing_where_a_type_has_no_such_field(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    whole = dict.fromkeys(
        ("event_name", "cron_expr", "timezone", "dedupe_window_seconds", "dedupe_key", "when", "start", "every")
    )
    for sent in (NIGHTLY, ON_CHANGE):
        said = ask.post("/jobs/triggers", json=whole | sent)
        assert said.status_code == 201, said.text
        assert {name: said.json()[name] for name in sent} == sent
        own = {name: to for name, to in sent.items() if name != "trigger_type"}
        again = ask("PATCH", f"/jobs/triggers/{said.json()['id']}", json=whole | own | {"label": "Again"})
        assert (again.status_code, again.json()["label"]) == (200, "Again"), again.text
        assert (
            ask("PATCH", f"/jobs/triggers/{said.json()['id']}", json={"event": None, "cron": None}).status_code == 422
        )
    for wrong in (NIGHTLY | {"event_name": "paid"}, ON_CHANGE | {"event_name": None}, NIGHTLY | {"cron_expr": None}):
        assert ask.post("/jobs/triggers", json=wrong).status_code == 422, wrong


def test_templates_by_id_and_name(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    made = ask.post("/templates", json={"name": "hello", "definition_key": "welcome", "payload": {"user_id": 1}})
    assert made.status_code == 201, made.text
    path = f"/templates/{made.json()['id']}"
    assert ask.get("/templates/hello").json() == ask.get(path).json()
    assert [each["name"] for each in ask.get("/templates").json()["items"]] == ["hello"]
    assert ask("PATCH", path, json={"name": "hi", "payload": {"user_id": 2}}).json()["revision"] == 2
    done = ask.post(f"{path}/run", json={"payload": {"user_id": 3}}).json()
    job = app.get(done["id"])
    assert (job.payload, job.template_id, job.tenant, job.created_by[:4]) == (
        {"user_id": 3},
        made.json()["id"],
        "acme",
        "key:",
    )
    assert ask.post(f"{path}/run", json={"options": {"queue": "default"}}).status_code == 403
    assert (
        ask.post("/templates", json={"name": "bad", "kind": "welcome", "options": {"timeout": "9h"}}).status_code == 403
    )
    nightly = NIGHTLY | {"template": "hi"}
    del nightly["definition_key"]
    assert ask.post("/jobs/triggers", json=nightly).json()["definition_key"] == "welcome"
    assert ask("DELETE", path).status_code == 409  # the trigger uses it


def test_definitions_by_id_and_key(app: Headway, client: Any, keys: dict[str, str]) -> None:
    root, viewer = client(keys["superadmin"]), client(keys["viewer"])
    schema = {"type": "object", "properties": {"provider_id": {"type": "string"}}, "required": ["provider_id"]}
    new = {
        "key": "sync-dropbox",
        "description": "Sync",
        "arg_schema": schema,
        "timeout_seconds": 3600,
        "max_attempts": 3,
    }
    made = root.post("/admin/jobs/definitions", json=new)
    assert made.status_code == 201, made.text
    made = made.json()
    assert {name: made[name] for name in new} == new
    assert root.post("/admin/jobs/definitions", json=new).status_code == 409
    path = f"/admin/jobs/definitions/{made['id']}"
    assert root("PATCH", path, json={"is_active": False, "timeout_seconds": None}).json()["timeout_seconds"] is None
    assert root.get("/admin/jobs/definitions/sync-dropbox").json()["is_active"] is False
    assert {"report", "sync-dropbox"} < {each["key"] for each in viewer.get("/definitions").json()["items"]}
    assert viewer.get(f"/definitions/{made['id']}").json()["key"] == "sync-dropbox"
    assert viewer("PATCH", path, json={"is_active": True}).status_code == 403
    assert root("PATCH", path, json={"max_attempts": 0}).status_code == 422
    app._definitions.expire()
    assert client(keys["admin"]).post("/jobs", json={"kind": "sync-dropbox", "payload": {}}).status_code == 422
