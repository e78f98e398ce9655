"""Machines and claims to try without a database: what the tests of machines share."""

from __future__ import annotations

from typing import Any

import msgspec

from headway import Context, Done, Machine, Next, Registry, step
from headway.define import ClaimedStep, MachineKind, StepContext
from headway.model.ids import new_id
from headway.model.job import Claim, NewJob, Settlement
from headway.model.machine import Checkpoint
from headway.model.outcome import Outcomes
from headway.model.signal import NewSignal, Received

LIMIT = 10_000


class App:
    """Remembers what it was asked to do."""

    payload_limit = 1_000

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.signals: list[tuple[NewSignal, Any]] = []

    def learn(self, conn: Any) -> None: ...

    async def alearn(self, conn: Any) -> None: ...

    def enqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append(job)

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Any:
        self.jobs.append(job)

    def signal_new(self, signal: NewSignal, conn: Any) -> Any:
        self.signals.append((signal, conn))

    async def asignal_new(self, signal: NewSignal, conn: Any) -> Any:
        self.signals.append((signal, conn))


class Order(msgspec.Struct):
    order: int
    paid: bool = False


def checkout(registry: Registry) -> type[Machine]:
    @registry.machine
    class Checkout(Machine, version=2, queue="checkout", max_attempts=3, partition="order_{order}"):
        """Sells."""

        State = Order

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.ship)

        @step(queue="warehouse")
        def ship(self, ctx: Context) -> Outcomes:
            return Next(self.bill)

        @step(partition="bills")
        def bill(self, ctx: Context) -> Outcomes:
            return Done()

        @step
        def end(self, ctx: Context) -> Outcomes:
            return Done()

        def helper(self) -> None: ...

    return Checkout


def versions(*numbers: int, migrates: bool = False) -> list[type[Machine]]:
    made = []
    for number in numbers:
        body: dict[str, Any] = {
            "start": step(lambda self, ctx: Done()),
            f"only{number}": step(lambda self, ctx: Done()),
        }
        if migrates and number == max(numbers):
            body["migrate_from"] = lambda self, version, state: state
        made.append(type(f"V{number}", (Machine,), body, version=number, name="thing"))
    return made


def claim(checkpoint: Checkpoint | None = None, **changes: Any) -> Claim:
    given: dict[str, Any] = {
        "id": new_id(),
        "tenant_id": "00000000-0000-0000-0000-000000000000",
        "kind": "thing",
        "queue": "checkout",
        "payload": '{"order":42}',
        "fence": 5,
        "tries": 1,
        "losses": 1,
        "max_attempts": 3,
        "max_losses": 3,
        "backoff_base_ms": 1_000,
        "backoff_cap_ms": 60_000,
        "timeout_ms": None,
        "delivery": "at_least_once",
        "correlation_id": "corr",
        "trace_id": "trace",
        "meta": None,
        "checkpoint": None if checkpoint is None else msgspec.json.encode(checkpoint).decode(),
    }
    return Claim(**given | changes)


def admitted(registry: Registry, checkpoint: Checkpoint | None, **changes: Any) -> ClaimedStep | None:
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    return kind.claimed(claim(checkpoint, **changes))


def visited(registry: Registry, checkpoint: Checkpoint | None, **changes: Any) -> tuple[ClaimedStep, StepContext]:
    claimed = admitted(registry, checkpoint, **changes)
    assert claimed is not None
    ctx = claimed.context(claimed.claim, tenant="default", worker_id="w")
    claimed.invocation(ctx)
    return claimed, ctx


def settlement_of(claimed: ClaimedStep, ctx: StepContext, outcome: Any, **options: Any) -> Settlement:
    return claimed.settlement_of(
        ctx, outcome, **{"result_limit": LIMIT, "state_limit": LIMIT, "continues": False, "failure": None} | options
    )


def signal(name: str, payload: Any = None) -> Received:
    return Received(new_id(), name, payload, 1_900_000_000_000_000, f"dedup-{name}")


def thing(registry: Registry, checkpoint: Checkpoint | None = None, **changes: Any) -> tuple[ClaimedStep, StepContext]:
    @registry.machine
    class Thing(Machine, version=2, name="thing", queue="checkout"):
        State = Order

        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done()

        @step(max_attempts=9, timeout="5s")
        def ship(self, ctx: Context) -> Outcomes:
            return Done()

        @step(queue="warehouse")
        def store(self, ctx: Context) -> Outcomes:
            return Done()

        @step(partition="bill_{order}")
        def bill(self, ctx: Context) -> Outcomes:
            return Done()

        def helper(self, ctx: Context) -> Outcomes:
            return Done()

    return visited(registry, checkpoint or Checkpoint(version=2, step="start"), **changes)
