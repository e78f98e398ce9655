"""What a tenant is not told of others: who works where, how much waits, and whether an id exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.errors import HeadwayError, NotAllowed, ReservationBusy

Call = Callable[..., Any]


@pytest.fixture
def work(app: Headway) -> Any:
    @app.job(concurrency=2)
    def work(number: int) -> int:
        return number

    return work


def test_who_paused_or_reserved_a_queue_is_not_said(app: Headway, work: Any, call: Call) -> None:
    acme = app.tenant("acme")
    mine = call(acme, "enqueue", "work", {"number": 1})
    work.enqueue(2)
    call(app, "pause", "default", actor="zoe of globex")
    with app.reserve("default", holder="globex:7"):
        (queue,) = call(acme, "queues")
        why = str(call(acme, "why", mine.id))
        assert (queue.paused, queue.paused_by, queue.reserved_by, queue.counts) == (
            True,
            None,
            "somebody",
            {"queued": 1},
        )
        assert "was paused" in why
        assert "reserved by somebody" in why
        assert not any(word in why for word in ("zoe", "globex"))
    (queue,) = call(app, "queues")
    assert (queue.paused_by, queue.counts) == ("zoe of globex", {"queued": 2})


def test_why_counts_no_jobs_of_others(app: Headway, work: Any, call: Call) -> None:
    app.enqueue_many(work.build(number) for number in range(7))
    mine = call(app.tenant("acme"), "enqueue", "work", {"number": 1})
    assert "so the 7 jobs of others before it" in str(call(app, "why", mine.id))
    of_acme = str(call(app.tenant("acme"), "why", mine.id))
    assert "it is next in queue default; 0 of its jobs run now" in of_acme
    assert "7" not in of_acme.partition("\n")[2]


def test_limits_and_reservations_are_the_operators(app: Headway, call: Call) -> None:
    for verb, options in (("limits", {}), ("limit", {"tenant": "acme", "max_running": 1})):
        with pytest.raises(NotAllowed, match="limits are shared by all tenants"):
            call(app.tenant("acme"), verb, **options)
    with pytest.raises(NotAllowed, match="queues are shared by all tenants"):
        app.tenant("acme").reserve("default")


def test_run_now_does_not_say_who_has_the_queue(app: Headway, work: Any) -> None:
    elsewhere = Headway(app.url)
    with (
        elsewhere.reserve("default", holder="globex:7"),
        pytest.raises(ReservationBusy, match="reserved by somebody since"),
    ):
        app.tenant("acme").run_now("work", {"number": 1})
    elsewhere.close()


def test_an_id_that_another_tenant_has_is_taken_and_no_more(both: list[Headway]) -> None:
    said = []
    for app in both:
        theirs = app.enqueue("work", {"number": 1}, tenant="globex")
        for options in ({}, {"unique_key": "k"}, {"idempotency_key": "k"}):
            built = app._built("work", {"number": 1}, options)  # type: ignore[arg-type]
            with pytest.raises(HeadwayError) as caught:
                app.tenant("acme").enqueue(type(built)(**{**as_dict(built), "id": theirs.id}))
            said.append((type(caught.value), str(caught.value).replace(theirs.id, "ID")))
    assert set(said) == {(said[0][0], "job id ID is taken: give a new job an id of its own")}


def as_dict(job: Any) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__}
