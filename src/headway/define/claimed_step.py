"""ClaimedStep: a claim of a machine, with the code of the step that runs and the checkpoint where the machine is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from headway.define.context import Context
from headway.define.options import Options
from headway.define.settlement_builder import SettlementBuilder
from headway.define.state import brief, plain
from headway.define.step_context import StepContext
from headway.define.steps import Step, is_step
from headway.errors import InvalidOutcome, InvalidPayload
from headway.model import codec
from headway.model.job import Claim, Settlement
from headway.model.machine import Checkpoint
from headway.model.outcome import KEEP, Next, Outcomes
from headway.model.signal import Received
from headway.secrets import Vault

if TYPE_CHECKING:
    from headway.define.machine import Edition, Machine

_OUTCOMES: tuple[type, ...] = get_args(Outcomes)
_NAMES = ", ".join(each.__name__ for each in _OUTCOMES)
_NO_LIMIT = 1 << 62


_received = msgspec.json.Decoder(tuple[Received, ...])
_AROUND = 3  # levels: the checkpoint, its signals, each of them


class ClaimedStep:
    """Has the interface of a `Kind` that the worker uses: what to call, and how to settle what it returned."""

    def __init__(self, edition: Edition, step: Step, checkpoint: Checkpoint, claim: Claim, *, migrates: bool) -> None:
        self.edition = edition
        self.step = step
        self.checkpoint = checkpoint
        self._row = claim
        self.claim = step.policy(claim)
        self.migrates = migrates
        self._ready = False  # its state was read, so `handle` may be called
        self._machine: Machine

    @property
    def options(self) -> Options:
        return self.step.options

    @property
    def is_async(self) -> bool:
        return self.step.is_async

    @property
    def joins(self) -> bool:
        """Whether the step comes after a Spawn and sees its children."""
        return self.checkpoint.joining is not None

    def fits(self) -> bool:
        """Whether this code can read the committed state: another release may have written it, which must not fail the
        machine. Of a first step, the payload is checked when it starts."""
        if self.migrates or not self.checkpoint.state:
            return True
        try:
            self.edition.shape.read(self.checkpoint.state)
        except InvalidPayload:
            return False
        return True

    def following(self, settlement: Settlement, signals: str | None) -> ClaimedStep | None:
        """The next step, after this one's settlement was committed; None if the step is not known here.

        Raises `InvalidPayload` if one of its signals cannot be read.
        """
        turn = settlement.turn
        assert turn is not None
        checkpoint = self.checkpoint
        claim = msgspec.structs.replace(self._row, fence=settlement.fence + 1, tries=0, losses=0, attempt=1)
        following = msgspec.structs.replace(
            checkpoint,
            version=turn.version,
            step=turn.step,
            state=checkpoint.state if turn.state is None else msgspec.Raw(turn.state.encode()),
            awaiting=(),
            woken=None,
            joining=None,
            signals=_read_inbox(signals),
        )
        step = self.edition.steps.get(turn.step)
        return None if step is None else ClaimedStep(self.edition, step, following, claim, migrates=False)

    def context(
        self, _claim: Claim, *, tenant: str | None, worker_id: str | None, vault: Vault | None = None
    ) -> StepContext:
        return StepContext(self, tenant=tenant, worker_id=worker_id, vault=vault)

    def invocation(self, ctx: Context) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """What to call; raises `InvalidPayload` if the state cannot be read."""
        assert isinstance(ctx, StepContext)
        # made only now: an error in its `__init__` fails the step
        machine = self._machine = self.edition.machine()
        if self.migrates:
            self._migrate(machine, ctx)
        ctx.read_state()
        self._ready = True
        return self.step.fn, (machine, ctx), {}

    @property
    def recovers(self) -> bool:
        """Whether the machine has a `handle` that may decide after an error."""
        return self._ready and getattr(self.edition.machine, "handle", None) is not None

    def recovery(self, ctx: Context, error: BaseException) -> tuple[Callable[..., Any], Sequence[Any]]:
        """What to call after the step raised: `handle`, which sees the committed state."""
        assert isinstance(ctx, StepContext)
        ctx.read_state()
        return self._machine.handle, (error, ctx)  # type: ignore[attr-defined]

    def settlement_of(
        self,
        ctx: Context,
        outcome: Any,
        *,
        result_limit: int,
        state_limit: int,
        continues: bool,
        failure: str | None = None,
        may_spill: bool = False,
    ) -> Settlement:
        """The settlement for the outcome of the step, or of `handle` after a failure.

        Raises `InvalidOutcome` for what is not an outcome or cannot be carried out, `InvalidPayload` for a result that
        cannot be stored. `may_spill`: a larger one could be, if the kind let it spill.
        """
        assert isinstance(ctx, StepContext)
        self._check(outcome, handled=failure is not None)
        builder = SettlementBuilder(self, ctx, result_limit, state_limit, continues, failure, may_spill=may_spill)
        return builder.build(outcome)

    def _check(self, outcome: Any, *, handled: bool) -> None:
        if isinstance(outcome, _OUTCOMES):
            return
        what = "nothing" if outcome is None else f"{brief(outcome)}"
        if isinstance(outcome, type) and issubclass(outcome, _OUTCOMES):
            what = f"the class {outcome.__name__}, not an instance ({outcome.__name__}(…))"
        elif is_step(outcome):
            what = f"the step {outcome.__name__} itself, not Next(self.{outcome.__name__})"
        where, who = (f"{self.claim.kind}.handle", "it") if handled else (self.where, "a step")
        raise InvalidOutcome(f"{where} returned {what}: {who} returns one of {_NAMES}")

    @property
    def where(self) -> str:
        return f"{self.claim.kind}.{self.step.name}"

    def _migrate(self, machine: Machine, ctx: StepContext) -> None:
        version = self.checkpoint.version
        before = plain(self.checkpoint.state if self.checkpoint.state else self.claim.payload)
        moved = machine.migrate_from(version, before)  # type: ignore[attr-defined]
        if isinstance(moved, Next):
            self.step = self.edition.step(moved.step, f"{self.claim.kind}.migrate_from({version})")
            moved = before if moved.state is KEEP else moved.state
        if self.step.name not in self.edition.steps:
            raise InvalidOutcome(
                f"{self.claim.kind} version {self.edition.version} has no step {self.step.name}, where this machine of "
                f"version {version} is: let migrate_from return Next(step, state)"
            )
        ctx.text = self.edition.shape.conform(moved, _NO_LIMIT)  # the limit is checked on its outcome


def _read_inbox(signals: str | None) -> tuple[Received, ...]:
    if signals is None:
        return ()
    codec.refuse_deep(signals, "inbox of this machine", around=_AROUND)
    try:
        return _received.decode(signals)
    except codec.FAULTS as error:
        raise codec.unread("inbox of this machine", error) from error
