"""What a step sees, and the queue and partition that it runs in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Headway, Machine, Next, Registry, Sleep, step
from headway.define import MachineKind
from headway.errors import InvalidJob, InvalidOutcome
from headway.model.job import Settlement
from headway.model.machine import Checkpoint
from tests.define.sample_machines import LIMIT, Order, admitted, claim, settlement_of, signal, thing


@pytest.fixture
def registry() -> Registry:
    return Registry()


# what a step sees


def test_a_step_sees_its_state_and_job(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    assert ctx.state == Order(42)
    assert (ctx.step, ctx.version, ctx.tries, ctx.losses, ctx.fence) == ("start", 2, 1, 1, 5)
    assert (ctx.signals, ctx.inbox, ctx.children, ctx.timed_out) == ((), (), (), False)
    assert not claimed.joins
    _, ctx = thing(
        Registry(), Checkpoint(version=2, step="ship", state=msgspec.Raw(b'{"order":7,"paid":true}'), joining=3)
    )
    assert ctx.state == Order(7, paid=True)
    assert (ctx.claim.max_attempts, ctx.claim.timeout_ms) == (9, 5_000)


def test_a_committed_state_that_the_code_cannot_read_is_given_back_like_an_unknown_step(registry: Registry) -> None:
    thing(registry, Checkpoint(version=2, step="start"))
    checkpoint = Checkpoint(version=2, step="start", state=msgspec.Raw(b'{"order":"x"}'))
    assert admitted(registry, checkpoint) is None
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    assert kind.unknown(claim(checkpoint)).startswith('the state of this machine "thing", which does not fit its State')


def test_a_machine_that_names_no_next_step_has_failed(registry: Registry) -> None:
    claimed, ctx = thing(registry, Checkpoint(version=2, step="start"))
    with pytest.raises(InvalidOutcome, match="it names no step"):
        claimed.settlement_of(ctx, Next(None), result_limit=100, state_limit=1_000, continues=True)  # type: ignore[arg-type]


def test_handle_takes_the_error_and_the_context(registry: Registry) -> None:
    class Odd(Machine):
        @step
        def start(self, ctx: Context) -> Done:
            return Done()

        def handle(self, error: Exception) -> Done:
            return Done()

    with pytest.raises(InvalidJob, match=r"def handle\(self, error, ctx\)"):
        registry.machine(Odd)


def test_the_signals_of_a_step_are_those_of_its_await_in_order_of_arrival(registry: Registry) -> None:
    there = (signal("b", 1), signal("other"), signal("a", 2), signal("b", 3))
    _, ctx = thing(registry, Checkpoint(version=2, step="ship", awaiting=("a", "b"), woken="signal", signals=there))
    assert [(each.name, each.payload) for each in ctx.signals] == [("b", 1), ("a", 2), ("b", 3)]
    assert [each.name for each in ctx.inbox] == ["b", "other", "a", "b"]
    assert (ctx.inbox[0].dedup_key, ctx.inbox[0].status, ctx.inbox[0].job_id) == ("dedup-b", "pending", ctx.job_id)


@pytest.mark.parametrize(
    ("match", "there", "timed_out"),
    [("any", [], True), ("any", ["a"], False), ("all", ["a"], True), ("all", ["a", "b"], False), ("any", ["c"], True)],
)
def test_timed_out_is_what_the_signals_do_not_contradict(
    registry: Registry, match: Any, there: list[str], timed_out: bool
) -> None:
    signals = tuple(map(signal, there))
    checkpoint = Checkpoint(version=2, step="ship", awaiting=("a", "b"), match=match, woken="timeout", signals=signals)
    _, ctx = thing(registry, checkpoint)
    assert ctx.timed_out is timed_out


# queues and partitions of steps


def moved(settlement: Settlement) -> tuple[Any, ...]:
    turn = settlement.turn
    assert turn is not None
    return turn.queue, turn.partition, turn.home_queue, turn.home_partition


AWAY = Checkpoint(version=2, step="store", partition="mine", home_queue="checkout", home_partition="mine")


@pytest.mark.parametrize(
    ("checkpoint", "queue", "to", "expected"),
    [
        # at home: to a step without a queue of its own, to one with a queue, to one with a partition
        (Checkpoint(version=2, step="start", partition="mine"), "checkout", "ship", (None, None, None, None)),
        (
            Checkpoint(version=2, step="start", partition="mine"),
            "checkout",
            "store",
            ("warehouse", "mine", "checkout", "mine"),
        ),
        (
            Checkpoint(version=2, step="start", partition="mine"),
            "checkout",
            "bill",
            ("checkout", "bill_42", "checkout", "mine"),
        ),
        (Checkpoint(version=2, step="start"), "checkout", "bill", ("checkout", "bill_42", "checkout", None)),
        # away: home again, to the same queue, to another one
        (AWAY, "warehouse", "start", ("checkout", "mine", None, None)),
        (AWAY, "warehouse", "store", (None, None, None, None)),
        (AWAY, "warehouse", "bill", ("checkout", "bill_42", "checkout", "mine")),
        # a home that is where the step wants to be anyway
        (Checkpoint(version=2, step="start", partition="mine"), "warehouse", "store", (None, None, None, None)),
    ],
)
def test_a_step_with_a_queue_or_partition_moves_and_the_next_one_goes_home(
    registry: Registry, checkpoint: Checkpoint, queue: str, to: str, expected: tuple[Any, ...]
) -> None:
    claimed, ctx = thing(registry, checkpoint, queue=queue)
    settlement = settlement_of(claimed, ctx, Next(to), continues=True)
    assert moved(settlement) == expected
    # what moves is taken by a worker of that queue, never continued in this slot
    assert settlement.to == ("running" if expected[0] is None else "queued")
    assert moved(settlement_of(claimed, ctx, Await("a", then=to))) == expected
    assert moved(settlement_of(claimed, ctx, Sleep(1, then=to))) == expected


def test_the_partition_of_the_next_step_is_made_of_the_state_that_it_gets(registry: Registry) -> None:
    claimed, ctx = thing(registry)
    assert moved(settlement_of(claimed, ctx, Next("bill", Order(99))))[1] == "bill_99"


def test_the_next_visit_begins_with_what_the_last_one_committed(registry: Registry) -> None:
    there = (signal("a"),)
    claimed, ctx = thing(
        registry, Checkpoint(version=2, step="ship", awaiting=("a",), woken="signal", joining=3, signals=there)
    )
    settlement = settlement_of(claimed, ctx, Next("start", Order(7, paid=True)), continues=True)
    left = msgspec.json.encode([signal("late", 1)]).decode()
    following = claimed.following(settlement, left)
    assert following is not None
    claim = following.claim
    assert (claim.fence, claim.tries, claim.losses, claim.max_attempts, claim.timeout_ms) == (6, 0, 0, 3, None)
    assert (following.joins, following.migrates) == (False, False)
    ctx = following.context(claim, tenant="default", worker_id="w")
    following.invocation(ctx)
    assert ctx.state == Order(7, paid=True)
    assert (ctx.signals, [each.name for each in ctx.inbox], ctx.timed_out) == ((), ["late"], False)
    assert following.following(settlement_of(following, ctx, Next("ship"), continues=True), None) is not None


def test_a_plain_job_that_returns_an_outcome_is_told_so() -> None:
    app = Headway("sqlite:///unused.db")

    @app.job
    def work() -> Any:
        return Next("there")

    ctx = work.context(claim(), tenant=None, worker_id=None)
    with pytest.raises(InvalidOutcome, match=r"work returned Next\(…\), and it is a plain job"):
        work.settlement_of(ctx, Next("there"), result_limit=LIMIT)
    assert work.settlement_of(ctx, Done(1), result_limit=LIMIT).result == "1"
