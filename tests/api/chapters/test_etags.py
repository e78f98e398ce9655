"""`ETag` and `If-Match`: of callers who saw the same version, one changes it, and the others are told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest

from headway import Headway
from headway.errors import ChangedMeanwhile, NotFound
from headway.model.ids import new_id
from headway.model.limit import QUOTAS, Limit
from tests.store.db import new_worker

MANY = 8


def test_templates_definitions_and_triggers_have_versions(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["superadmin"])
    template = ask.post("/templates", json={"name": "t", "kind": "welcome"})
    trigger = ask.post(
        "/jobs/triggers",
        json={"name": "s", "trigger_type": "schedule", "cron_expr": "@daily", "definition_key": "report"},
    )
    definition = ask.get("/admin/jobs/definitions/welcome")
    for path, tag in (
        (f"/templates/{template.json()['id']}", template.headers["etag"]),
        (f"/jobs/triggers/{trigger.json()['id']}", trigger.headers["etag"]),
        ("/admin/jobs/definitions/welcome", definition.headers["etag"]),
    ):
        assert ask.get(path).headers["etag"] == tag
        changed = ask("PATCH", path, json={"description": "one"}, headers={"If-Match": tag})
        assert (changed.status_code, changed.headers["etag"] != tag) == (200, True), path
        late = ask("PATCH", path, json={"description": "two"}, headers={"If-Match": tag})
        assert (late.status_code, late.json()["code"]) == (412, "ChangedMeanwhile"), path
        assert ask.get(path).json()["description"] == "one"
        either = {"If-Match": f"{tag}, {changed.headers['etag']}"}
        assert ask("PATCH", path, json={"description": "three"}, headers=either).status_code == 200
        if "definitions" not in path:
            assert ask("DELETE", path, headers=either).status_code == 412
            assert ask("DELETE", path, headers={"If-Match": ask.get(path).headers["etag"]}).status_code == 204
    assert ask.get("/definitions/welcome").headers["etag"] == ask.get("/admin/jobs/definitions/welcome").headers["etag"]


def test_tenants_have_versions(client: Any, keys: dict[str, str]) -> None:
    ask, path = client(keys["superadmin"]), "/admin/tenants/shop"
    tag = ask.post("/admin/tenants", json={"slug": "shop"}).headers["etag"]
    assert ask.get(path).headers["etag"] == tag
    seen = {"If-Match": tag}
    changed = ask("PATCH", path, json={"tz": "Asia/Tokyo"}, headers=seen)
    assert (changed.status_code, changed.headers["etag"] != tag) == (200, True), changed.text
    for method, more in (("PATCH", ""), ("POST", "/suspend"), ("POST", "/resume"), ("DELETE", "")):
        late = ask(method, path + more, json={"slug": "other"} if method == "PATCH" else None, headers=seen)
        assert (late.status_code, late.json()["code"]) == (412, "ChangedMeanwhile"), (method, more)
    # all of a change, or nothing
    assert ask("PATCH", path, json={"tz": "UTC", "slug": "acme"}).status_code == 409
    assert ask.get(path).json() == changed.json()
    stopped = ask.post(f"{path}/suspend", headers={"If-Match": changed.headers["etag"]})
    assert stopped.json()["suspended_at"] is not None
    assert ask("DELETE", path, headers={"If-Match": stopped.headers["etag"]}).status_code == 200
    assert ask.get(path).status_code == 404


def test_of_many_changes_of_one_version_one_is_made(app: Headway) -> None:
    app.enqueue("welcome", {"user_id": 1}, queue="mail")
    template = app.create_template("t", "welcome")
    trigger = app.create_schedule("s", "@daily", kind="report")
    start = Barrier(MANY)

    def change_template(number: int, seen: str) -> None:
        app.change_template(UUID(template.id), description=str(number), if_match=[seen])

    def change_trigger(number: int, seen: str) -> None:
        app.change_schedule(UUID(trigger.id), description=str(number), if_match=[seen])

    def change_definition(number: int, seen: str) -> None:
        app.change_definition("welcome", description=str(number), if_match=[seen])

    def attempt(change: Any, number: int, seen: str) -> bool:
        start.wait()
        try:
            change(number, seen)
        except ChangedMeanwhile:
            return False
        return True

    with ThreadPoolExecutor(MANY) as pool:
        for change, read in (
            (change_template, lambda: app.get_template("t")),
            (change_trigger, lambda: app.get_schedule("s")),
            (change_definition, lambda: app.get_definition("welcome")),
        ):
            before = read().revision
            done = list(pool.map(attempt, [change] * MANY, range(MANY), [str(before)] * MANY))
            assert done.count(True) == 1, change
            assert (read().revision, read().description) == (before + 1, str(done.index(True)))
        # none of these has a row before
        seen = app.queues(name="mail")[0].etag
        none = Limit(scope="kind", name="welcome").etag
        for change, tag in (
            (lambda number, seen: app.limit(kind="welcome", max_running=number, if_match=[seen]), none),
            (lambda number, seen: app.pause("mail", if_match=[seen]), seen),
        ):
            assert list(pool.map(attempt, [change] * MANY, range(MANY), [tag] * MANY)).count(True) == 1
        worker = new_worker(id=new_id())
        app.store.run(app.store.ops.register(worker))

        def set_worker(number: int, seen: str) -> None:
            app.set_worker(worker.id, concurrency=number + 1, if_match=[seen])

        done = list(pool.map(attempt, [set_worker] * MANY, range(MANY), [app.workers()[0].etag] * MANY))
        assert (done.count(True), app.workers()[0].wanted) == (1, {"total": done.index(True) + 1})
        list(pool.map(lambda name: app.limit(tenant="*", **{name: 7}), QUOTAS))  # type: ignore[arg-type, misc]
        (limit,) = (each for each in app.limits() if each.scope == "tenant")
        assert [getattr(limit, name) for name in QUOTAS] == [7] * len(QUOTAS), "one took back another's"


def test_what_is_set_for_a_worker_has_a_version(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, worker = client(keys["superadmin"]), new_worker(id=new_id())
    ops, path = app.store.ops, f"/workers/{worker.id}"
    app.store.run(ops.register(worker))
    seen = ask.get(path).headers["etag"]
    app.store.run(ops.heartbeat(worker.id, running=1, busy=["default"], serves=({"a": 1}, 9)))
    assert ask.get(path).headers["etag"] == seen, "a heartbeat is no change"
    changed = ask("PATCH", path, json={"concurrency": 2}, headers={"If-Match": seen})
    assert (changed.status_code, changed.json()["wanted"]) == (200, {"total": 2})
    assert ask.get(path).headers["etag"] == changed.headers["etag"] != seen
    for method, to, body in (("PATCH", path, {"concurrency": 3}), ("POST", f"{path}/dead", None)):
        said = ask(method, to, json=body, headers={"If-Match": seen})
        assert (said.status_code, said.json()["code"]) == (412, "ChangedMeanwhile"), to
    assert ask.get(path).json()["wanted"] == {"total": 2}
    tag = {"If-Match": f"{seen}, {changed.headers['etag']}"}
    more = ask("PATCH", path, json={"queues": {"b": 1, "a": 2}, "order": "strict"}, headers=tag)
    assert more.status_code == 200, more.text
    assert set(more.json()["wanted"]) == {"total", "entries", "order"}
    assert ask.post(f"{path}/dead", headers={"If-Match": more.headers["etag"]}).status_code == 200
    assert ask("PATCH", path, json={"concurrency": 3}, headers=tag).status_code == 404
    with pytest.raises(NotFound):
        app.set_worker(worker.id, concurrency=3, if_match=["x"])


def test_a_version_of_what_is_not_there_is_no_version(app: Headway) -> None:
    with pytest.raises(NotFound):
        app.change_definition("nothing", description="x", if_match=["1"])
    assert "nothing" not in {each.kind for each in app.definitions()}
