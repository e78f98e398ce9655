"""Each outcome of a step, concluded to its settlement."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from headway import Await, Done, Machine, Next, Registry, Replay, Sleep, Spawn, Stop
from headway.errors import InvalidOutcome, InvalidPayload
from headway.model.machine import Checkpoint
from tests.define.sample_machines import LIMIT, Order, checkout, settlement_of, signal, thing


@pytest.fixture
def registry() -> Registry:
    return Registry()


# outcomes


def test_next_commits_the_state_and_goes_on(registry: Registry) -> None:
    there = (signal("a"), signal("other"))
    claimed, ctx = thing(registry, Checkpoint(version=2, step="start", awaiting=("a",), signals=there))
    ctx.state.paid = True
    settlement = settlement_of(claimed, ctx, Next("ship"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.id, settlement.fence) == (claimed.claim.id, 5)
    assert (settlement.status, settlement.to, settlement.charge, settlement.error) == ("succeeded", "queued", 0, None)
    assert (turn.outcome, turn.ran, turn.step, turn.version, turn.progress) == ("next", "start", "ship", 2, True)
    assert turn.state == '{"order":42,"paid":true}'
    assert turn.consumed == (there[0].id,)
    assert (turn.queue, turn.partition, turn.home_queue, turn.home_partition) == (None, None, None, None)
    assert settlement_of(claimed, ctx, Next("ship"), continues=True).to == "running"


def test_a_step_is_named_by_its_method_its_function_or_its_name(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    machine = claimed.edition.machine
    for ref in ("ship", machine().ship, machine.ship, claimed.edition.steps["ship"].fn):  # type: ignore[attr-defined]
        turn = settlement_of(claimed, ctx, Next(ref)).turn
        assert turn is not None
        assert turn.step == "ship"


@pytest.mark.parametrize("outcome", [Next, functools.partial(Await, "payment"), functools.partial(Sleep, "1m")])
@pytest.mark.parametrize("ref", ["nowhere", "helper", 7, functools.partial(print), lambda: None, "", Machine])
def test_a_step_that_is_none_is_an_invalid_outcome(registry: Registry, outcome: Any, ref: Any) -> None:
    claimed, ctx = thing(registry)
    with pytest.raises(
        InvalidOutcome, match=r"thing.start names .* as the next step, .*it has start, ship, store, bill"
    ):
        settlement_of(claimed, ctx, outcome(ref))


def test_a_given_state_is_committed_instead_of_the_contexts(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    ctx.state = Order(1)
    for state, text in ((Order(7), '{"order":7,"paid":false}'), ({"order": 8}, '{"order":8}')):
        for outcome in (
            Next("ship", state),
            Replay(state),
            Await("a", state=state),
            Sleep(1, state=state),
            Spawn([], state=state),
        ):
            turn = settlement_of(claimed, ctx, outcome).turn
            assert turn is not None
            assert turn.state == text
    turn = settlement_of(claimed, ctx, Next("ship")).turn
    assert turn is not None
    assert turn.state == '{"order":1,"paid":false}'


def test_replay_runs_the_same_step_again_without_progress(registry: Registry) -> None:
    there = (signal("a"),)
    claimed, ctx = thing(registry, Checkpoint(version=2, step="ship", awaiting=("a",), signals=there))
    settlement = settlement_of(claimed, ctx, Replay(delay="90s"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.status, settlement.to, settlement.delay_ms, settlement.charge) == (
        "snoozed",
        "scheduled",
        90_000,
        0,
    )
    assert (turn.outcome, turn.ran, turn.step, turn.progress, turn.consumed) == ("replay", "ship", "ship", False, ())
    assert turn.note == "in 1m 30s"
    after_failure = settlement_of(claimed, ctx, Replay(delay=1), failure="ValueError: no")
    assert (after_failure.status, after_failure.charge, after_failure.error) == ("failed", 1, "ValueError: no")


def test_replay_of_an_at_most_once_machine_is_a_new_job_that_is_charged_after_a_failure(registry: Registry) -> None:
    claimed, ctx = thing(registry, delivery="at_most_once")
    settlement = settlement_of(claimed, ctx, Replay(delay="1m"))
    assert (settlement.to, settlement.delay_ms, settlement.charge, settlement.status) == (
        "failed",
        60_000,
        0,
        "snoozed",
    )
    settlement = settlement_of(claimed, ctx, Replay(delay="1m"), failure="ValueError: no")
    assert (settlement.to, settlement.delay_ms, settlement.charge, settlement.status) == ("failed", 60_000, 1, "failed")


def test_await_waits_for_names_with_a_deadline(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    settlement = settlement_of(claimed, ctx, Await(["b", "a", "b"], then="ship", timeout="3d", match="all"))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.status, settlement.to, turn.outcome, turn.step) == ("succeeded", "waiting", "await", "ship")
    assert (turn.awaiting, turn.match, turn.deadline_ms) == (("b", "a"), "all", 3 * 86_400_000)
    assert turn.note == "b and a, at most 3d 0h"
    turn = settlement_of(claimed, ctx, Await("a")).turn
    assert turn is not None
    assert (turn.step, turn.awaiting, turn.match, turn.deadline_ms, turn.note) == ("start", ("a",), "any", None, "a")
    assert settlement_of(claimed, ctx, Await("a"), continues=True).to == "waiting"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Await([]), "awaits no signal: name"),
        (Await(""), "signal"),
        (Await([7]), "signal"),  # type: ignore[list-item]
        (Await("a", match="most"), "neither 'any' nor 'all'"),  # type: ignore[arg-type]
        (Await("a", timeout="soon"), "timeout"),
        (Await("a", timeout=-1), "timeout"),
        (Await(7), "thing.start"),  # type: ignore[arg-type]
        (Sleep("soon"), "delay"),
        (Sleep(None), "delay"),  # type: ignore[arg-type]
        (Replay(delay=-1), "delay"),
        (Spawn([7]), "7 is not a child"),  # type: ignore[list-item]
        (Spawn([], on_failure="explode"), "neither 'continue' nor 'stop'"),  # type: ignore[arg-type]
        (Spawn(7), "thing.start"),  # type: ignore[arg-type]
        (Next("ship", state="x"), "cannot be kept"),
    ],
)
def test_an_outcome_that_cannot_be_carried_out_is_shown(registry: Registry, outcome: Any, says: str) -> None:
    claimed, ctx = thing(registry)
    with pytest.raises(InvalidOutcome, match=says):
        settlement_of(claimed, ctx, outcome)


@pytest.mark.parametrize(
    "rubbish", [None, 7, "ship", {"a": 1}, Next, Done, ValueError("x"), (Next("ship"),), "x" * 10_000]
)
def test_what_is_no_outcome_is_shown(registry: Registry, rubbish: Any) -> None:
    claimed, ctx = thing(registry)
    with pytest.raises(
        InvalidOutcome, match=r"thing.start returned .*a step returns one of Next, Replay, Await"
    ) as caught:
        settlement_of(claimed, ctx, rubbish)
    assert len(str(caught.value)) < 500


def test_sleep_goes_on_later(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    settlement = settlement_of(claimed, ctx, Sleep("2d", then="ship"), continues=True)
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, settlement.delay_ms, settlement.status) == ("scheduled", 2 * 86_400_000, "succeeded")
    assert (turn.outcome, turn.step, turn.progress, turn.note) == ("sleep", "ship", True, "for 2d 0h")
    again = settlement_of(claimed, ctx, Sleep(1.5)).turn
    assert again is not None
    assert again.step == "start"


def test_done_keeps_the_state_and_stores_the_result(registry: Registry) -> None:
    there = (signal("a"),)
    claimed, ctx = thing(registry, Checkpoint(version=2, step="ship", awaiting=("a",), signals=there))
    ctx.state.paid = True
    settlement = settlement_of(claimed, ctx, Done({"shipped": 42}))
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, settlement.status, settlement.result) == ("succeeded", "succeeded", '{"shipped":42}')
    assert (turn.outcome, turn.ran, turn.step, turn.state, turn.consumed) == (
        "done",
        "ship",
        "ship",
        None,
        (there[0].id,),
    )
    assert settlement_of(claimed, ctx, Done()).result is None
    for too_much in ("x" * (LIMIT + 1), object()):
        with pytest.raises(InvalidPayload, match="result"):
            settlement_of(claimed, ctx, Done(too_much))


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (None, "the machine stopped itself"),
        ("never paid", "never paid"),
        (ValueError("no"), "ValueError: no"),
        (7, "7"),
    ],
)
def test_stop_has_failed_for_its_reason(registry: Registry, reason: Any, error: str) -> None:
    claimed, ctx = thing(registry)
    settlement = settlement_of(claimed, ctx, Stop(reason))
    assert (settlement.to, settlement.status, settlement.error, settlement.charge) == ("failed", "failed", error, 0)
    assert settlement.turn is not None
    assert (settlement.turn.outcome, settlement.turn.state) == ("stop", None)


def test_stop_with_the_error_itself_keeps_the_traceback(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    assert (
        settlement_of(claimed, ctx, Stop(ValueError("no")), failure="ValueError: no\n\nTraceback").error
        == "ValueError: no\n\nTraceback"
    )
    settlement = settlement_of(claimed, ctx, Stop("enough"), failure="ValueError: no")
    assert (settlement.to, settlement.error, settlement.charge) == ("failed", "enough", 0)


def test_what_handle_decides_is_decided_after_a_failure(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    for outcome, to in (
        (Next("ship"), "queued"),
        (Done(1), "succeeded"),
        (Await("a"), "waiting"),
        (Sleep(1), "scheduled"),
    ):
        settlement = settlement_of(claimed, ctx, outcome, failure="ValueError: no")
        assert (settlement.status, settlement.to, settlement.error) == ("failed", to, "ValueError: no")


def test_spawn_makes_children_of_its_own_tenant_that_know_their_parent(registry: Registry) -> None:
    claimed, ctx = thing(registry)

    @registry.job(queue="kids")
    def kid(number: int) -> None: ...

    other = checkout(registry)
    jobs = [kid.build(1), kid.using(correlation_id="own", trace_id="mine").build(2), other.build(order=7)]
    settlement = settlement_of(claimed, ctx, Spawn(jobs, then="ship", on_failure="stop"), continues=True)
    turn = settlement.turn
    assert turn is not None
    assert (settlement.to, turn.outcome, turn.step, turn.on_failure, turn.note) == (
        "waiting",
        "spawn",
        "ship",
        "stop",
        "3 children",
    )
    assert [child.id for child in turn.children] == [job.id for job in jobs]
    assert [(child.correlation_id, child.trace_id) for child in turn.children] == [
        ("corr", "trace"),
        ("own", "mine"),
        ("corr", "trace"),
    ]
    assert {child.tenant_id for child in turn.children} == {claimed.claim.tenant_id}
    assert turn.children[0].checkpoint == Checkpoint(parent_id=claimed.claim.id)
    assert turn.children[2].checkpoint == Checkpoint(version=2, step="start", parent_id=claimed.claim.id)
    one = settlement_of(claimed, ctx, Spawn([kid.build(1)])).turn
    assert one is not None
    assert one.note == "1 child"


def test_an_empty_spawn_goes_on_like_next(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    for continues, to in ((True, "running"), (False, "queued")):
        settlement = settlement_of(claimed, ctx, Spawn([], then="ship"), continues=continues)
        assert settlement.turn is not None
        assert (settlement.to, settlement.turn.step, settlement.turn.children) == (to, "ship", ())


def test_children_of_others_or_twice_are_refused(registry: Registry) -> None:
    claimed, ctx = thing(registry)

    @registry.job
    def kid() -> None: ...

    child = kid.build()
    with pytest.raises(InvalidOutcome, match="among the children twice"):
        settlement_of(claimed, ctx, Spawn([child, child]))
    with pytest.raises(InvalidOutcome, match="spawns for its own tenant"):
        settlement_of(claimed, ctx, Spawn([kid.using(tenant="acme").build()]))


def test_an_await_that_would_run_its_own_step_at_once_for_ever_is_refused(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    with pytest.raises(InvalidOutcome, match="would run this step again at once, forever"):
        settlement_of(claimed, ctx, Await("go", timeout=0))
    assert settlement_of(claimed, ctx, Await("go", then="start", timeout=0)).to == "waiting"


def test_a_spawn_says_how_many_must_succeed(registry: Registry) -> None:
    @registry.job
    def kid(number: int) -> None: ...

    claimed, ctx = thing(registry)

    def settled(outcome: Spawn) -> Any:
        return settlement_of(claimed, ctx, outcome)

    jobs = [kid.build(number) for number in range(3)]
    for until, needed in ((None, None), ("first", 1), (3, 3)):
        turn = settled(Spawn(jobs, "ship", until=until)).turn
        assert turn is not None
        assert turn.needed == needed
        assert turn.note == ("3 children" if needed is None else f"3 children, until {needed} succeeded")
    for until, words in (
        (0, "until=0 is no number of children"),
        (True, "until=True is no number of children"),
        ("second", "until='second' is no number of children"),
        (4, "until=4 is more than its 3 children"),
    ):
        with pytest.raises(InvalidOutcome, match=words):
            settled(Spawn(jobs, "ship", until=until))  # type: ignore[arg-type]
    with pytest.raises(InvalidOutcome, match="until= counts successes, and on_failure='stop' gives up"):
        settled(Spawn(jobs, "ship", until=2, on_failure="stop"))
