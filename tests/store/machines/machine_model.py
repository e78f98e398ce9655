"""Machines as plain objects: what they should be after everything that happened to them, for the random walks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headway.model.signal import satisfied
from headway.model.status import FINISHED


@dataclass
class Mail:
    id: str
    name: str
    dedup_key: str | None
    fence: int | None = None


@dataclass
class Model:
    """A machine as a plain object: what it should be after everything that happened to it."""

    id: str
    parent: str | None = None
    status: str = "queued"
    step: str = "start"
    state: Any = None
    awaiting: tuple[str, ...] = ()
    match: str = "any"
    deadline: datetime | None = None
    joining: int | None = None
    woken: str | None = None
    due: datetime | None = None
    sleeps_until: datetime | None = None  # its last step ended with a Sleep
    fence: int = 0
    tries: int = 0
    losses: int = 0
    worker: str | None = None
    asked: bool = False
    inbox: list[Mail] = field(default_factory=list)
    seen: tuple[str, ...] = ()  # ids of the signals that its running step was given
    spawned: dict[int, list[str]] = field(default_factory=dict)
    policy: dict[int, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.status in FINISHED

    @property
    def unconsumed(self) -> list[Mail]:
        return [mail for mail in self.inbox if mail.fence is None]

    @property
    def matched(self) -> tuple[str, ...]:
        """What an outcome of its running step consumes."""
        return tuple(mail.id for mail in self.unconsumed if mail.id in self.seen and mail.name in self.awaiting)

    @property
    def waits(self) -> list[str]:
        return [] if self.joining is None else self.spawned.get(self.joining, [])

    def starts(self, worker: str) -> None:
        self.status, self.worker, self.fence = "running", worker, self.fence + 1
        self.sleeps_until = None
        self.seen = tuple(mail.id for mail in self.unconsumed)


class World(dict[str, Model]):
    """All machines, and the rules between them."""

    def end(self, one: Model, status: str) -> None:
        one.status, one.worker, one.asked, one.due = status, None, False, None
        for parent in list(self.values()):
            fails = status != "succeeded" and parent.policy.get(parent.joining or 0) == "stop"
            if parent.status == "waiting" and one.id in parent.waits and fails:
                self.stop(self[child] for child in parent.waits if self[child].parent == parent.id)

    def cancel(self, one: Model) -> None:
        if one.status == "running":
            one.asked = True
        elif not one.over:
            waited = one.waits if one.status == "waiting" else []
            self.end(one, "canceled")
            self.stop(self[child] for child in waited if self[child].parent == one.id)

    def stop(self, children: Iterable[Model]) -> None:
        for child in list(children):
            self.cancel(child)

    def wake(self) -> None:
        """Everybody who has what it waits for is queued."""
        for one in self.values():
            if one.status != "waiting":
                continue
            there = [mail.name for mail in one.unconsumed]
            if one.joining is not None:
                woken = "children" if all(self[child].over for child in one.waits) else None
            else:
                woken = "signal" if satisfied(one.awaiting, one.match, there) else None
            if woken is not None:
                one.status, one.woken, one.deadline = "queued", woken, None
