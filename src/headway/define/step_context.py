"""The context of a step: its job's, with the machine's state, signals and children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.clock import from_micros
from headway.define.context import Context
from headway.model.machine import Child
from headway.model.signal import Received, Signal, satisfied
from headway.secrets import Vault

if TYPE_CHECKING:
    from headway.define.claimed_step import ClaimedStep


class StepContext(Context[Any]):
    """Passed to every step; `state` may be changed in place or replaced."""

    __slots__ = ("_children", "_claimed", "_inbox", "_state", "text")

    def __init__(
        self, claimed: ClaimedStep, *, tenant: str | None, worker_id: str | None, vault: Vault | None = None
    ) -> None:
        super().__init__(claimed.claim, tenant=tenant, worker_id=worker_id, vault=vault)
        self._claimed = claimed
        self._children: tuple[Child, ...] = ()
        self._inbox: tuple[Signal, ...] | None = None
        self._state: Any = None
        # the committed state as JSON; before the first commit, the payload
        self.text: str = bytes(claimed.checkpoint.state).decode() if claimed.checkpoint.state else claimed.claim.payload

    @property
    def state(self) -> Any:
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    def read_state(self) -> None:
        """For the worker: (re)read the committed state."""
        self._state = self._claimed.edition.shape.read(self.text)

    @property
    def inbox(self) -> tuple[Signal, ...]:
        if self._inbox is None:
            self._inbox = tuple(_signal(each, self._claim.id) for each in self._claimed.checkpoint.signals)
        return self._inbox

    @property
    def signals(self) -> tuple[Signal, ...]:
        names = self._claimed.checkpoint.awaiting
        return tuple(signal for signal in self.inbox if signal.name in names) if names else ()

    @property
    def timed_out(self) -> bool:
        checkpoint = self._claimed.checkpoint
        if checkpoint.woken != "timeout":
            return False
        # a signal that came after the deadline but before this step started is in time
        return not satisfied(checkpoint.awaiting, checkpoint.match, (signal.name for signal in self.inbox))

    @property
    def children(self) -> tuple[Child, ...]:
        return self._children

    def bring_children(self, children: Sequence[Child]) -> None:
        """For the worker."""
        self._children = tuple(children)

    @property
    def step(self) -> str:
        return self._claimed.step.name

    @property
    def version(self) -> int:
        """The version of the machine's code that runs."""
        return self._claimed.edition.version


def _signal(received: Received, job_id: str) -> Signal:
    return Signal(
        id=received.id,
        job_id=job_id,
        name=received.name,
        payload=received.payload,
        dedup_key=received.dedup_key,
        sent_at=from_micros(received.sent_at),
        status="pending",
        consumed_at=None,
        fence=None,
    )
