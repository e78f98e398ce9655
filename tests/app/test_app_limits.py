"""Limits through the app: of kinds and keys, set at run time, fairness, and how full a tenant may be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway, Limit
from headway.errors import InvalidJob, NotAllowed, QueueFull
from headway.testing import drain, held

Call = Callable[..., Any]


class Gauge:
    """Counts what runs at once, per key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[Any, int] = {}
        self.most: dict[Any, int] = {}

    def __call__(self, key: Any) -> None:
        import time

        with self._lock:
            self._now[key] = self._now.get(key, 0) + 1
            self.most[key] = max(self.most.get(key, 0), self._now[key])
        time.sleep(0.01)
        with self._lock:
            self._now[key] -= 1


def test_a_kinds_concurrency_counts_per_key(app: Headway) -> None:
    gauge = Gauge()

    @app.job(concurrency=2, concurrency_key="{user}")
    def work(user: int) -> None:
        gauge(user)

    app.enqueue_many(work.build(number % 3) for number in range(18))
    assert drain(app, concurrency=12).succeeded == 18
    assert all(most <= 2 for most in gauge.most.values())


def test_a_partition_runs_one_at_a_time_in_order(app: Headway) -> None:
    gauge, order = Gauge(), []

    @app.job(partition=lambda order_id: f"order:{order_id}")
    def work(order_id: int, number: int) -> None:
        gauge(order_id)
        order.append((order_id, number))

    app.enqueue_many(work.build(number % 3, number) for number in range(18))
    assert drain(app, concurrency=12).succeeded == 18
    assert gauge.most == {0: 1, 1: 1, 2: 1}
    for key in range(3):
        assert [number for order_id, number in order if order_id == key] == list(range(key, 18, 3))


def test_a_queue_and_a_kind_and_a_tenant_have_limits_that_are_set_at_run_time(app: Headway, call: Call) -> None:
    gauge = Gauge()

    @app.job(queue="mail")
    def work() -> None:
        gauge("all")

    for whose in ({"queue": "mail"}, {"kind": "work"}, {"tenant": "default"}, {"tenant": "*"}):
        call(app, "limit", **whose, max_running=2)
        app.enqueue_many(work.build() for _ in range(8))
        assert drain(app, concurrency=8).succeeded == 8
        assert gauge.most.pop("all") <= 2, whose
        call(app, "limit", **whose, max_running=None)
    assert call(app, "limits") == []


def test_limits_are_merged_and_taken_back(app: Headway, call: Call) -> None:
    limit = call(app, "limit", kind="mail", max_running=3, rate="100/min", burst=5, actor="ada")
    assert limit == Limit(scope="kind", name="mail", max_running=3, rate_count=100, rate_period_ms=60_000, rate_burst=5)
    assert call(app, "limit", kind="mail", max_running=4).rate_count == 100
    assert call(app, "limit", kind="mail", rate=None) == Limit(scope="kind", name="mail", max_running=4)
    acme = call(app, "limit", tenant="acme", max_pending=10)
    assert (acme.scope, acme.name, acme.max_pending) == ("tenant", app._id_of("acme"), 10)
    everyone = call(app, "limit", tenant="*", max_running=7)
    queue = call(app, "limit", queue="gpu", max_running=0)
    assert call(app, "limits") == sorted(
        [queue, acme, everyone, Limit(scope="kind", name="mail", max_running=4)],
        key=lambda limit: (limit.scope, limit.name),
    )
    assert next(each for each in app.queues() if each.name == "gpu").max_running == 0
    assert call(app, "limit", kind="mail", max_running=None).empty
    assert [limit.scope for limit in call(app, "limits")] == ["queue", "tenant", "tenant"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "whose limit"),
        ({"max_running": 1}, "whose limit"),
        ({"queue": "a", "kind": "b", "max_running": 1}, "whose limit"),
        ({"queue": "a"}, "which limit"),
        ({"queue": "a b", "max_running": 1}, "is not a valid name"),
        ({"tenant": "a b", "max_running": 1}, "is not a valid name"),
        ({"queue": "a", "max_running": -1}, "max_running=-1 is out of range"),
        ({"queue": "a", "max_running": "3"}, "max_running='3' is not a whole number"),
        ({"queue": "a", "rate": "1/s"}, "rate is a limit of kinds, not of a queue"),
        ({"tenant": "a", "burst": 1}, "burst is a limit of kinds, not of a tenant"),
        ({"kind": "a", "max_pending": 1}, "max_pending is a limit of tenants, not of a kind"),
        ({"kind": "a", "rate": "often"}, "rate='often' is not a rate"),
        ({"kind": "a", "burst": 5}, "burst=5 means nothing without rate"),
        ({"kind": "a", "rate": None, "burst": 5}, "burst=5 means nothing without rate"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(app: Headway, options: Any, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        app.limit(**options)
    assert app.limits() == []


def test_limits_belong_to_all_tenants(app: Headway) -> None:
    acme = app.tenant("acme")
    for verb in (lambda: acme.limit(queue="x", max_running=1), acme.limits, lambda: acme.fair("x")):
        with pytest.raises(NotAllowed, match="with the app itself, not for one tenant"):
            verb()


def test_a_full_tenant_is_told_so(app: Headway, call: Call) -> None:
    app.limit(tenant="acme", max_pending=3)
    acme = app.tenant("acme")
    for _ in range(3):
        call(acme, "enqueue", "work")
    with pytest.raises(QueueFull, match="acme"):
        call(acme, "enqueue", "work")
    assert len(acme.jobs()) == 3
    call(app, "enqueue", "work")  # another tenant's
    app.limit(tenant="acme", max_pending=None)
    call(acme, "enqueue", "work")


def test_a_rate_lets_only_so_many_start(app: Headway) -> None:
    @app.job(rate="2/min", burst=3)
    def work() -> None: ...

    with held(app) as clock:
        app.enqueue_many(work.build() for _ in range(6))
        assert drain(app).succeeded == 3
        assert drain(app).succeeded == 0
        clock.advance("31s")
        assert drain(app).succeeded == 1
        assert drain(app, with_scheduled=True).succeeded == 2


def test_a_fair_queue_takes_tenants_in_turn(app: Headway, call: Call) -> None:
    order: list[str] = []

    @app.job(queue="shared")
    def work(name: str) -> None:
        order.append(name)

    for _ in range(2):  # the next claim after one that met a tenant takes turns
        app.tenant("big").enqueue("work", {"name": "x"})
        drain(app)
    order.clear()
    app.tenant("big").enqueue_many(work.build(f"b{number}") for number in range(4))
    app.tenant("small").enqueue_many(work.build(f"s{number}") for number in range(2))
    assert next(queue for queue in app.queues() if queue.name == "shared").fair
    drain(app)
    assert sorted(order[:2]) == ["b0", "s0"]
    assert sorted(order[2:4]) == ["b1", "s1"]
    call(app, "fair", "shared", False)
    assert not any(queue.fair for queue in app.queues())
    call(app, "fair", "shared")
    with pytest.raises(InvalidJob, match="neither True nor False"):
        call(app, "fair", "shared", "yes")
