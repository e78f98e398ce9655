"""Steps a machine by hand: on a real database and by the real path, one step at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headway.app import Headway
from headway.define import Cancel, Context, Kind, Machine, MachineKind, Retry, Snooze
from headway.errors import ConfigError, HeadwayError, InvalidJob, NotAllowed
from headway.model.codec import encode
from headway.model.duration import Duration
from headway.model.job import Enqueued, Job, NewJob
from headway.model.machine import START, Child, StepExecution
from headway.model.signal import Sent, Signal
from headway.model.status import FINISHED, Status
from headway.testing.clock import clock_of
from headway.testing.drained import is_known
from headway.worker import SingleJobWorker

T = TypeVar("T")

STEPS = 1_000
"""After this many steps `run` takes a machine for endless."""
_BATCH = 500
_NO_LIMIT = 1 << 30


def stepping(
    app: Headway, machine: type[Machine] | Kind[..., Any] | NewJob | Enqueued | str, /, *state: Any, **fields: Any
) -> Stepping:
    """Enqueue a machine with these fields of its state (or one state), to be stepped by hand.

        with held(app):
            order = stepping(app, Checkout, order=42)
            order.run()                                # until it waits
            assert order.waits_for == ("payment",)
            order.signal("payment", {"amount": 100})
            assert order.step().outcome == "done"      # exactly one step
            assert order.path == ["start", "ship"]

    Options go through `using`: `stepping(app, Checkout.using(unique_key="order:42"), order=42)`. What is enqueued
    already is taken up by its id, or by what its enqueue gave. No worker may listen to its queues at the same time.
    """
    match machine:
        case str() | Enqueued() | NewJob() if state or fields:
            raise InvalidJob("that machine has its state already: give no fields")
        case str():
            return Stepping(app, machine)
        case Enqueued():
            return Stepping(app, machine.id)
        case NewJob():
            return Stepping(app, app.enqueue(machine).id)
        case _:
            return Stepping(app, app.enqueue(machine.build(*state, **fields)).id)


class Stepping:
    """One machine in the hands of a test. What it says of the machine is read from the database each time."""

    def __init__(self, app: Headway, job_id: str) -> None:
        self._app = app
        self.id = app.get(job_id).id

    def __repr__(self) -> str:
        job = self.job
        return f"<Stepping {job.kind} {job.id}: {job.status} at {job.step or START}>"

    # what it is

    @property
    def job(self) -> Job:
        """The machine's row, with what people are not shown."""
        return self._app._run(self._app._get(self.id))

    @property
    def status(self) -> Status:
        return self.job.status

    @property
    def at(self) -> str:
        """The step that comes next, or that it ended with."""
        return self.job.step or START

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The names of the signals that it waits for now."""
        job = self.job
        return job.awaiting if job.status == "waiting" else ()

    @property
    def state(self) -> Any:
        """Its state as the next step will see it, as its type."""
        job = self.job
        committed = job.payload if job.state is None else job.state
        kind = self._app.kinds[job.kind]
        edition = kind.editions.get(job.version or 0) if isinstance(kind, MachineKind) else None
        # of a version that is not known here: as it is stored
        return committed if edition is None else edition.shape.read(encode(committed, limit=_NO_LIMIT))

    @property
    def result(self) -> Any:
        return self._app.result(self.id, timeout=0).value

    @property
    def error(self) -> str | None:
        return self.job.error

    @property
    def history(self) -> list[StepExecution]:
        """Every execution so far."""
        return self._app.history(self.id)

    @property
    def path(self) -> list[str]:
        """The steps that it went through: each once, however often it was tried or replayed before it got on."""
        return _path(self.history)

    @property
    def outcomes(self) -> list[str]:
        """How each execution ended: the outcome's name ("next", "await", …), or "failed", "timeout", "snoozed", …."""
        return [execution.outcome or execution.status for execution in self.history]

    @property
    def signals(self) -> list[Signal]:
        """Its inbox, consumed signals included."""
        return self._app.signals(self.id)

    @property
    def children(self) -> list[Child]:
        """The jobs of the Spawn that it waits for, or that woke the step that comes next."""
        return self._app.children(self.id)

    # what a test does to it

    def step(self) -> StepExecution:
        """Run exactly one step; gives how it ended.

        What the step raises is recorded as ever, and then raised here, unless the machine's `handle` made an outcome of
        it; Retry, Snooze and Cancel are no errors. Raises `NotAllowed` where no step can run now, saying what for.
        """
        return self._blocking(self.astep())

    async def astep(self) -> StepExecution:
        """The same inside a running event loop."""
        await self._tick()
        job = await self._app.aget(self.id)
        if job.status != "queued":
            raise NotAllowed(await self._standstill(job))
        if not is_known(self._app, job):
            raise NotAllowed(f"this app knows no step {job.step} in version {job.version} of {job.kind}")
        worker = _OneStep(self._app, job)
        await worker.run(until_idle=True)
        if not worker.taken:
            raise NotAllowed(f"no step of {job.kind} can run now: {await self._app.awhy(self.id)}")
        await self._tick()
        execution = (await self._app.ahistory(self.id))[-1]
        own_will = isinstance(worker.raised, Retry | Snooze | Cancel)
        if execution.outcome is None and execution.status in ("failed", "timeout") and not own_will:
            raise self._failure(execution, worker.raised)
        return execution

    def run(self) -> Status:
        """Step until it waits, sleeps or is over; gives its status. Raises what `step` raises."""
        return self._blocking(self.arun())

    async def arun(self) -> Status:
        for _ in range(STEPS):
            await self._tick()
            status = (await self._app.aget(self.id)).status
            if status != "queued":
                return status
            await self.astep()
        raise HeadwayError(f"after {STEPS:,} steps it still goes on: step it as often as the test needs it")

    def run_children(self) -> list[Child]:
        """Run the children that it waits for, as far as they can run now; gives them. Their errors are not raised:
        the next step sees them. A child that waits itself can be stepped: `stepping(app, child.id)`."""
        return self._blocking(self.arun_children())

    async def arun_children(self) -> list[Child]:
        while True:
            await self._tick()
            children = await self._app.achildren(self.id)
            ready = [child.id for child in children if child.status == "queued"]
            taken = [child_id for child_id in ready if await self._run_whole(child_id)]
            if not taken:
                return children

    def signal(self, name: str, payload: Any = None, *, dedup_key: str | None = None) -> Sent:
        """Send it a signal, and wake it where it waited for that."""
        sent = self._app.signal(self.id, name, payload, dedup_key=dedup_key)
        self._tick_now()
        return sent

    def advance(self, by: Duration) -> Status:
        """Move the clock of `held(app)` on, and wake it where its time has come; gives its status."""
        clock = clock_of(self._app)
        if clock is None:
            raise ConfigError(
                "the time is not held, so it cannot be advanced: step the machine inside `with held(app):`"
            )
        clock.advance(by)
        self._tick_now()
        return self.status

    def assert_path(self, *steps: str) -> None:
        """Check that it went through exactly these steps; the failure shows its history."""
        __tracebackhide__ = True
        history = self.history
        if _path(history) != list(steps):
            job = self.job
            raise AssertionError(
                f"expected {job.kind} to go through {_arrows(steps)}, and it went through {_arrows(_path(history))}:\n"
                + "\n".join(map(_line, history))
                + f"\n  now {job.status} at {job.step or START}"
            )

    # how

    async def _tick(self) -> None:
        """What a worker's maintenance does: queue what is due, wake machines whose signals are there."""
        ops, run = self._app.store.ops, self._app.store.arun
        while await run(ops.process_arrivals(limit=_BATCH)):
            pass
        while (await run(ops.promote(limit=_BATCH))).queued == _BATCH:
            pass

    def _tick_now(self) -> None:
        ops, run = self._app.store.ops, self._app.store.run
        while run(ops.process_arrivals(limit=_BATCH)):
            pass
        while run(ops.promote(limit=_BATCH)).queued == _BATCH:
            pass

    async def _run_whole(self, job_id: str) -> bool:
        job = await self._app.aget(job_id)
        worker = SingleJobWorker(
            self._app.store,
            self._app.kinds.kinds,
            queues={job.queue: 1},
            job_id=job_id,
            reservation_id=None,
            **self._app._work_options(),
        )
        await worker.run(until_idle=True)
        return worker.taken

    async def _standstill(self, job: Job) -> str:
        where = f"no step of {job.kind} can run now:"
        match job.status:
            case "waiting" if job.awaiting:
                names = (" and " if job.match == "all" else " or ").join(job.awaiting)
                until = "" if job.deadline_at is None else f", or until {job.deadline_at.isoformat()}"
                return f"{where} it waits for {names}{until}; send it with .signal(…), or .advance(…) the time"
            case "waiting":
                return f"{where} it waits for its children; .run_children() runs them"
            case "scheduled":
                assert job.scheduled_for is not None
                return f"{where} it is scheduled for {job.scheduled_for.isoformat()}; .advance(…) the time"
            case status if status in FINISHED:
                ended = "has failed" if status == "failed" else f"is {status}"
                return f"{where} it {ended} ({job.error or 'no error'})"
            case _:
                return f"{where} {await self._app.awhy(job.id)}"

    def _failure(self, execution: StepExecution, raised: BaseException | None) -> BaseException:
        told = execution.error or execution.status
        if raised is None or isinstance(raised, asyncio.CancelledError):
            # no exception of its own: a timeout, or something returned that is not an outcome
            return HeadwayError(f"step {execution.step} failed: {told}")
        if "and its handle raised:" in told:
            raised.add_note(f"its handle failed, too:\n{told.partition('and its handle raised:')[2].strip()}")
        return raised

    def _blocking(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise ConfigError(
                "this thread already runs an event loop: use `await machine.astep()`, arun, arun_children"
            )

        async def run() -> T:
            try:
                return await work
            finally:
                await self._app.store.leave_loop()  # the event loop ends here, and with it what was opened on it

        with asyncio.Runner() as runner:
            return runner.run(run())


class _OneStep(SingleJobWorker):
    """A worker for one step of one machine."""

    def __init__(self, app: Headway, job: Job) -> None:
        options = app._work_options()
        self.raised: BaseException | None = None
        super().__init__(
            app.store,
            app.kinds.kinds,
            queues={job.queue: 1},
            job_id=job.id,
            reservation_id=None,
            **options | {"middleware": [self._watch, *options["middleware"]]},
        )

    def _assemble(self, until_idle: bool) -> None:
        super()._assemble(until_idle)
        self._runner.close()  # no next step in the same slot

    async def _watch(self, _: Context, call_next: Any) -> Any:
        """The outermost middleware: keeps the exception that the step raised."""
        try:
            return await call_next()
        except BaseException as error:
            self.raised = error
            raise


def _path(history: list[StepExecution]) -> list[str]:
    steps: list[str] = []
    goes_on = True
    for execution in history:
        if goes_on or steps[-1] != execution.step:
            steps.append(execution.step)
        goes_on = execution.outcome not in (None, "replay")
    return steps


def _arrows(steps: Any) -> str:
    return " → ".join(steps) or "nothing"


def _line(execution: StepExecution) -> str:
    note = f" {execution.note}" if execution.note else ""
    woken = f", woken by {execution.woken}" if execution.woken else ""
    error = f" ({execution.error.partition(chr(10))[0]})" if execution.error else ""
    return f"  {execution.fence}: {execution.step}{woken}: {execution.outcome or execution.status}{note}{error}"
