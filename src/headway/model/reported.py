"""Ends that workers in any language report: they say what happened, and the job's own policy where it goes."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.model.status import Status

BadEnd = Literal["failed", "timeout", "canceled"]


class Completion(msgspec.Struct, frozen=True):
    """This execution succeeded."""

    id: str
    fence: int
    result: str | None = None  # JSON text


class Failure(msgspec.Struct, frozen=True):
    """This execution failed; the policy of the job's row says what follows. One that was `canceled` charges nothing,
    and its job is canceled."""

    id: str
    fence: int
    error: str | None  # None: canceled, for the reason that was given with the cancel
    retry: bool = True  # False: another try could not help, the job is dead
    delay_ms: int | None = None  # None: by the row's backoff
    exit_code: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    status: BadEnd = "failed"  # of the attempt


class Ended(msgspec.Struct, frozen=True):
    """What came of reported ends."""

    statuses: dict[str, Status]  # where each job that was ended is now
    lost: list[tuple[str, int]] = []  # (id, fence) of what this worker does not run: nothing was written
    machines: list[tuple[str, int]] = []  # not completed: a machine's step ends with an outcome
