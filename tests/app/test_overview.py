"""`app.stats` and `app.overview`: what happened, and what needs a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from headway import Headway
from headway.errors import InvalidJob, NotAllowed
from headway.model.ids import DEFAULT_TENANT_ID


def test_numbers_are_grouped_as_asked(app: Headway) -> None:
    acme = app.tenant("acme")
    for kind, queue in (("a", "q"), ("a", "r"), ("b", "q")):
        app.enqueue(kind, queue=queue)
    acme.enqueue("a", queue="q")

    def found(verbs=app, **asked):
        return {(s.tenant_id is not None, s.queue, s.kind): s.enqueued for s in verbs.stats("day", **asked)}

    assert found() == {(False, None, None): 4}
    assert found(by="kind") == {(False, None, "a"): 3, (False, None, "b"): 1}
    assert found(by=["kind", "queue"], queue=["q"]) == {(False, "q", "a"): 2, (False, "q", "b"): 1}
    assert found(kind="b") == found(kind=("b", "c")) == {(False, None, None): 1}
    assert found(acme, by="queue") == {(False, "q", None): 1}
    assert sum(s.enqueued for s in app.stats("minute", since="5m", by="tenant")) == 4
    assert app.stats(since=datetime.now(UTC) + timedelta(hours=1), until=datetime.now(UTC) + timedelta(hours=2)) == []
    for asked in ({"every": "week"}, {"by": "worker"}, {"since": "60d"}, {"since": datetime.now()}):  # noqa: DTZ005
        with pytest.raises(InvalidJob):
            app.stats(**asked)


def test_what_needs_a_person_comes_most_urgent_first(app: Headway) -> None:
    @app.job(max_attempts=1)
    def broken() -> None:
        raise ValueError

    assert app.overview().problems == []
    broken.enqueue()
    app.run(until_idle=True)
    broken.using(queue="nobody").enqueue()
    broken.using(queue="stopped").enqueue()
    app.pause("stopped")
    acme = app.tenant("acme")
    broken.using(queue="elsewhere", train="t", tenant="acme").enqueue()
    acme.hold_train("t", reason="look at it")
    found = app.overview()
    assert [(each.what, each.queue, each.kind, each.name, each.count) for each in found.problems] == [
        ("no_worker", "elsewhere", None, None, 1),
        ("no_worker", "nobody", None, None, 1),
        ("dying", "default", "broken", None, 1),
        ("held_train", None, None, "t", 1),
        ("paused", "stopped", None, None, 1),
    ]
    (error,) = app.errors()
    assert found.problems[2].error == error.fingerprint
    assert [each.tenant for each in found.problems] == [None, None, None, "acme", None]
    assert found.problems[2].why == "1 job of kind broken died: ValueError"
    assert f"headway jobs retry --status dead --error {error.fingerprint}" in found.problems[2].fix
    assert found.problems[1].why == "no worker listens to queue nobody, and 1 job waits in it"
    assert all(each.fix.startswith("headway ") for each in found.problems)
    assert (found.pulse.enqueued, found.pulse.started, found.pulse.failed, found.pulse.dead) == (4, 1, 1, 1)
    assert found.pulse.run_p50_ms is not None
    assert [each.what for each in acme.overview().problems] == ["no_worker", "held_train"]
    assert acme.overview().pulse.enqueued == 1
    only = app.tenant(UUID(DEFAULT_TENANT_ID)).overview().problems[1]
    assert only.fix == (
        f"headway errors show {error.fingerprint} --tenant default, "
        f"then headway jobs retry --status dead --error {error.fingerprint} --tenant default"
    )
    tenants = {each.tenant: each for each in app.overview_of_tenants()}
    assert (tenants["acme"].pulse.enqueued, tenants["default"].pulse.enqueued) == (1, 3)
    assert (tenants["acme"].share, tenants["default"].share) == (0.0, 1.0)
    with pytest.raises(NotAllowed):
        acme.overview_of_tenants()


def test_a_kind_that_dies_tells_how_often_its_commonest_error_was_seen(app: Headway) -> None:
    @app.job(max_attempts=1)
    def broken(key: str) -> None:
        {}[key] if key else int("x")

    for key in ("a", "b", ""):
        broken.enqueue(key)
    app.run(until_idle=True)
    (problem,) = app.overview().problems
    common = next(each for each in app.errors() if each.dead == 2)
    assert problem.why == (
        f"3 jobs of kind broken died, 2 of one error: {common.message} "
        f"(2 × the same since {common.first_seen_at:%H:%M} UTC)"
    )
