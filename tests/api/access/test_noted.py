"""What the audit keeps of requests that change nothing: bounded, whatever is asked how often."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway import Headway
from headway.api import Api
from headway.api.access import noted
from headway.model.ids import is_id


@pytest.fixture
def entries(api: Api, app: Headway, loop: Any) -> Any:
    """Stores what was noted, and gives the entries of these actions, oldest first."""

    def stored(*actions: str) -> list[Any]:
        loop.run_until_complete(api.noted.store())
        return [each for each in reversed(app.audit_log(limit=1_000)) if each.action in actions]

    return stored


def test_refused_keys_are_counted_by_address(client: Any, entries: Any) -> None:
    """However many a stranger sends, it is one entry."""
    for number in range(20):
        assert client(f"hw_live_{number:016x}_{'x' * 32}").get("/jobs").status_code in (401, 429)
    assert client(None).get("/jobs").status_code == 401  # no key at all
    (entry,) = entries("key.refused")
    assert (entry.actor, entry.address, entry.job_id, entry.tenant_id) == (None, "127.0.0.1", None, None)
    assert entry.detail.endswith(" times")
    assert entry.request_id
    assert len(entries("key.refused")) == 1  # nothing new


def test_a_refused_request_names_the_key_and_the_route(client: Any, keys: Any, entries: Any, app: Headway) -> None:
    viewer = client(keys["viewer"])
    for number in range(3):
        assert viewer.post(f"/jobs/{number}/cancel", json={}).status_code == 403
    assert viewer.post("/jobs", json={"kind": "welcome"}).status_code == 403
    first, second = entries("request.refused")
    assert (first.detail, second.detail) == ("POST /jobs/{id}/cancel: 3 times", "POST /jobs")
    assert first.actor.startswith("key:")
    assert first.actor_name == "viewer"
    assert first.tenant_id == app.tenant("acme").tenant_id


def test_a_super_admins_look_at_a_tenant_is_noted_once_an_hour(
    api: Api, client: Any, keys: Any, entries: Any, app: Headway
) -> None:
    app.enqueue("welcome", {"user_id": 1}, tenant="acme")
    now = [1000.0]
    api.noted._monotonic = lambda: now[0]
    root = client(keys["superadmin"])
    for _ in range(3):
        assert root.get("/jobs", headers={"Headway-Tenant": "acme"}).status_code == 200
        assert root.get("/audit", headers={"Headway-Tenant": "acme"}).status_code == 200
        assert root.get("/jobs").status_code == 200
    assert client(keys["viewer"]).get("/jobs").status_code == 200
    assert [(each.tenant_id, each.detail) for each in entries("tenant.read")] == [
        (app.tenant("acme").tenant_id, None), (None, "all tenants"),
    ]  # fmt: skip
    now[0] += 3_601
    root.get("/jobs", headers={"Headway-Tenant": "acme"})
    assert len(entries("tenant.read")) == 3


def test_a_login_is_noted_with_the_name_of_its_key(client: Any, keys: Any, entries: Any, app: Headway) -> None:
    assert client(keys["operator"]).post("/session").status_code == 201
    (entry,) = entries("session.began")
    assert (entry.actor_name, entry.tenant_id, entry.detail) == ("operator", app.tenant("acme").tenant_id, None)


def test_an_export_is_json_lines_and_is_noted(client: Any, keys: Any, entries: Any, app: Headway) -> None:
    job = app.enqueue("welcome", {"user_id": 1}, tenant="acme")
    app.cancel(job.id, actor="ann")
    app.pause("mail", actor="ann")  # of no tenant
    viewer = client(keys["viewer"])
    answer = viewer.get("/audit/export?actor=ann")
    assert answer.headers["content-type"].startswith("application/jsonl")
    assert [json.loads(line)["action"] for line in answer.text.splitlines()] == ["cancel"]
    number = json.loads(answer.text)["id"]
    assert viewer.get(f"/audit/export?actor=ann&after={number}").text == ""
    assert viewer.get("/audit/export?after=-1").status_code == 422
    (entry,) = entries("exported")
    assert (entry.detail, entry.actor_name) == ("audit.jsonl: 2 times", "viewer")


def test_an_export_goes_on_after_a_page(client: Any, keys: Any, app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.chapters.audit._PAGE", 2)
    for number in range(5):
        app.pause(f"q{number}", actor="ann")
    lines = client(keys["superadmin"]).get("/audit/export?actor=ann").text.splitlines()
    assert [json.loads(line)["detail"] for line in lines] == [f"q{number}" for number in range(5)]


def test_a_change_has_the_name_of_its_key(client: Any, keys: Any, app: Headway) -> None:
    assert client(keys["superadmin"]).post("/queues/mail/pause").status_code == 200
    entry = app.audit_log(action="pause")[0]
    assert (entry.actor_name, is_id(entry.actor or "")) == ("root", False)
    app.pause("other", actor="ann")
    assert app.audit_log(action="pause")[0].actor_name is None


def test_what_is_noted_is_bounded_and_survives_a_silent_database(
    api: Api, app: Headway, loop: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noted, "_MOST", 3)

    class Exchange:
        request_id = "r"

        def __init__(self, address: str) -> None:
            self.address = address

    for number in range(100):
        api.noted.unknown(Exchange(f"10.0.0.{number}"))  # type: ignore[arg-type]
    note_access = app.store.ops.note_access
    with monkeypatch.context() as broken:
        broken.setattr(type(app.store.ops), "note_access", lambda *_: note_access([None]))
        with pytest.raises(Exception):  # noqa: B017, PT011
            loop.run_until_complete(api.noted.store())
    found = entries("key.refused")
    assert [(each.address, each.detail) for each in found] == [
        ("10.0.0.0", None), ("10.0.0.1", None), ("10.0.0.2", None), (None, "of many: 97 times"),
    ]  # fmt: skip
