"""What the server says, as values."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar

from headway_client.errors import JobFailed, NotFinished

T = TypeVar("T")

FINISHED = frozenset({"succeeded", "failed", "dead", "canceled"})


@dataclass(frozen=True, kw_only=True)
class Enqueued:
    """A job that was enqueued; `created` is false for one that was there already."""

    id: str
    status: str
    kind: str
    queue: str
    created: bool
    tenant_id: str = ""
    scheduled_for: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job; `fields` has everything that the server says of it."""

    id: str
    status: str
    kind: str
    queue: str
    payload: Any
    result: Any = None
    error: str | None = None
    fence: int = 0
    tries: int = 0
    priority: int = 0
    progress: float | None = None
    created_at: datetime | None = None
    scheduled_for: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One execution of a job."""

    fence: int
    status: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker_id: str | None = None
    error: str | None = None
    step: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class JournalRow:
    """What a flow has recorded of an operation: its answer (`done`, `failed`, `signal`, `ended`, `timer`, `cancel`) or
    a note about it."""

    seq: int
    kind: str
    place: str
    value: Any = None
    error: str | None = None
    tries: int | None = None
    job_id: str | None = None
    due_at: datetime | None = None
    at: datetime | None = None
    took_ms: int | None = None
    fence: int = 0
    counts: bool = True
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that an attempt stored; `sha256` is in hex."""

    id: str
    job_id: str
    fence: int
    name: str
    content_type: str
    size: int
    sha256: str
    created_at: datetime | None = None


@dataclass(frozen=True)
class LogText:
    """The characters `begin` to `end` of what the execution `fence` has logged."""

    fence: int
    begin: int
    end: int
    text: str


@dataclass(frozen=True)
class Gone:
    """The job was deleted."""


@dataclass(frozen=True)
class Outcome:
    """A job's end, or where it is now."""

    status: str
    value: Any = None
    error: str | None = None
    artifact: Artifact | None = None  # the value was too large for its row: this file has it

    def unwrap(self) -> Any:
        """What the job returned; raises `JobFailed` if it ended otherwise, `NotFinished` before."""
        if self.status == "succeeded":
            return self.value
        if self.status not in FINISHED:
            raise NotFinished(f"the job is {self.status}, not over yet: wait longer, client.result(id, wait=…)")
        said = self.error or "no reason given"
        raise JobFailed(f"the job ended {self.status}: {said}", status=self.status, error=self.error)


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; give `next_cursor` to get the next."""

    items: Sequence[T]
    next_cursor: str | None


def read(kind: type[T], said: Mapping[str, Any]) -> T:
    """The value of this type; what it does not know goes into `fields`, if it has them."""
    times, names = _fields(typing.cast(Any, kind))
    values = {name: said[name] for name in names if name in said}
    for name in times:
        if values.get(name) is not None:
            values[name] = datetime.fromisoformat(values[name])
    if "fields" in names:
        values["fields"] = dict(said)
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    hints = typing.get_type_hints(kind)
    names = tuple(field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if hints[name] == datetime | None), names
