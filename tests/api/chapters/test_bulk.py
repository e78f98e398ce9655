"""Bulk actions: a dry run keeps what it saw, and later calls act on that alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from headway import Headway
from headway.api import Api
from headway.api.chapters import bulk
from tests.api.conftest import Client


def test_a_list_is_acted_on_in_parts(
    app: Headway, client: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_AT_ONCE", 2)
    acme, ask = app.tenant("acme"), client(keys["operator"])
    ids = [acme.enqueue("report").id for _ in range(5)]
    app.enqueue("report")  # another tenant's
    about = {"action": "cancel", "filter": {"definition_key": ["report"]}}
    seen = ask.post("/jobs/actions", json=about | {"dry_run": True}).json()
    assert (seen["count"], seen["done"], seen["remaining"], seen["more"]) == (5, 0, 5, False)
    assert [job["id"] for job in seen["sample"]] == ids
    acme.cancel(ids[1])  # it does not match any more
    late = acme.enqueue("report").id
    go_on = {"token": seen["token"], "expect": 5}
    for key in ("admin", "superadmin"):  # the list is another key's
        assert client(keys[key]).post("/jobs/actions", json=go_on).status_code == 404
    assert ask.post("/jobs/actions", json=go_on | {"expect": 4}).json()["code"] == "UnexpectedCount"
    assert ask.post("/jobs/actions", json=go_on | {"action": "retry"}).status_code == 422
    # the action may be said again
    said = [ask.post("/jobs/actions", json=go_on | more).json() for more in ({}, {"action": "cancel"}, {}, {})]
    assert [(each["done"], each["skipped"], each["remaining"]) for each in said] == [
        (1, 1, 3),
        (2, 0, 1),
        (1, 0, 0),
        (0, 0, 0),
    ]
    assert acme.counts() == {"canceled": 5, "queued": 1}
    assert acme.get(late).status == "queued"
    assert acme.audit(ids[0])[-1].actor.startswith("key:")


def test_every_action_and_what_is_refused(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["admin"])
    ids = [acme.enqueue("report", priority=9).id for _ in range(2)] + [acme.enqueue("welcome", {"user_id": 1}).id]

    def act(name: str, number: int, **more: Any) -> Any:
        body = {"action": name, "filter": {"kind": ["report"]}, "expect": number} | more
        return ask.post("/jobs/actions", json=body)

    for expect, body, status in (
        (2, {"action": "fly"}, 422),
        (2, {"filter": {}}, 422),
        (2, {"filter": {"colour": ["red"]}}, 422),
        (2, {"token": ids[0]}, 422),
        (3, {}, 409),
        (2, {"action": "change"}, 422),
        (2, {"action": "change", "change": {}}, 422),
        (2, {"action": "change", "change": {"payload": {}}}, 422),
        (2, {"change": {"priority": 1}}, 422),
        (-1, {}, 422),
    ):
        assert act("cancel", expect, **body).status_code == status, body
    assert ask.post("/jobs/actions", json={"token": ids[0]}).status_code == 404
    unknown = ask.post("/jobs/actions", json={"token": "nonsense"})
    assert (unknown.status_code, "no list nonsense" in unknown.text) == (404, True)
    assert ask.post("/jobs/actions", json={"action": "cancel", "filter": {"kind": ["report"]}}).status_code == 422
    delete = {"action": "delete", "filter": {"kind": ["report"]}, "dry_run": True}
    assert client(keys["operator"]).post("/jobs/actions", json=delete).status_code == 403
    assert {job.priority for job in acme.jobs()} == {9, 100}
    assert act("change", 2, change={"priority": 1, "tags": ["x"]}).json()["done"] == 2
    assert {job.priority for job in acme.jobs(kind="report")} == {1}
    assert act("delete", 0).json()["done"] == 0  # none of them has ended
    assert act("cancel", 2, reason="no").json()["done"] == 2
    assert act("retry", 2).json()["done"] == 2
    assert acme.counts() == {"queued": 3}
    act("cancel", 2)
    assert act("delete", 2).json()["done"] == 2
    assert [job.id for job in acme.jobs()] == ids[2:]


def test_a_change_that_one_kind_does_not_allow_changes_none(app: Headway, client: Any, keys: dict[str, str]) -> None:
    app.change_definition("report", enqueuer_may={"queue": ["fast"]})
    acme, ask = app.tenant("acme"), client(keys["operator"])
    acme.enqueue("report")
    acme.enqueue("welcome", {"user_id": 1})
    move = {"action": "change", "filter": {"queue": ["default", "mail"]}, "change": {"queue": "fast"}, "expect": 2}
    said = ask.post("/jobs/actions", json=move)
    assert (said.status_code, said.json()["code"]) == (403, "NotAllowed"), said.text
    assert {job.queue for job in acme.jobs()} == {"default", "mail"}
    said = ask.post("/jobs/actions", json=move | {"filter": {"kind": ["report"]}, "expect": 1})
    assert (said.status_code, said.json()["done"]) == (200, 1), said.text


def test_a_dry_run_can_be_acted_on_for_ten_minutes(app: Headway, loop: Any, clock: Any, hold_postgres: Any) -> None:
    held = Headway(app.url, clock=clock.held)
    in_time = nullcontext() if app.store.dialect == "sqlite" else hold_postgres(app.url, clock)
    with in_time:
        acme = held.tenant("acme")
        api = Api(held)
        ask = Client(api, loop, acme.create_api_key("o", "operator").text)
        other = Client(api, loop, acme.create_api_key("p", "operator").text)
        ids = [acme.enqueue("report").id for _ in range(2)]
        about = {"action": "cancel", "filter": {"ids": ids[:1]}, "dry_run": True}
        one, two = (ask.post("/jobs/actions", json=about).json()["token"] for _ in range(2))
        clock.advance("9m")
        assert other.post("/jobs/actions", json={"token": one}).status_code == 404, "it is for the key that made it"
        assert ask.post("/jobs/actions", json={"token": one}).json()["done"] == 1
        clock.advance("61s")
        said = ask.post("/jobs/actions", json={"token": two})
        assert (said.status_code, "ten minutes" in said.json()["detail"]) == (404, True), said.text
        page = ask.get("/jobs?limit=1").json()
        clock.advance("30d")
        rest = ask.get(f"/jobs?limit=1&cursor={page['next_cursor']}").json()
        assert [each["id"] for each in page["items"] + rest["items"]] == ids[::-1], "a cursor has no end"
        loop.run_until_complete(api.aclose())
        loop.run_until_complete(held.aclose())
        held.close()


def test_a_list_is_forgotten_after_ten_minutes(app: Headway) -> None:
    acme = app.tenant("acme")
    token = acme.keep_list([], key_id="k", action="{}")
    store = app.store
    assert store.run(store.ops.read_list(token, tenant_id=acme.tenant_id, key_id="k", limit=1)).total == 0
    assert store.run(store.ops.read_list(token, tenant_id=None, key_id="k", limit=1)) is None
    assert store.run(store.ops.prune_lists()) == 0


def test_what_somebody_selected_is_one_call(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["operator"])
    ids = [acme.enqueue("report").id for _ in range(3)]
    other = app.enqueue("report").id
    about = {"action": "cancel", "filter": {"ids": [*ids[:2], other]}}
    seen = ask.post("/jobs/actions", json=about | {"dry_run": True}).json()
    assert (seen["count"], {each["id"] for each in seen["sample"]}) == (2, set(ids[:2]))
    assert ask.post("/jobs/actions", json=about | {"expect": 2}).json()["done"] == 2
    assert [acme.get(each).status for each in ids] == ["canceled", "canceled", "queued"]
    assert app.get(other).status == "queued"
    for bad in (["x"], ids * 400):
        assert ask.post("/jobs/actions", json=about | {"filter": {"ids": bad}, "dry_run": True}).status_code == 422
