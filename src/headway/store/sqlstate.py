"""Turns the SQLSTATEs that Headway's functions raise into the errors of `headway.errors`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headway.errors import (
    Duplicate,
    HeadwayError,
    InvalidJob,
    InvalidPayload,
    LeaseLost,
    NotAllowed,
    NotFound,
    QueueFull,
    SchemaMissing,
    StoreMoved,
    TenantSuspended,
    UnknownKind,
)

_REFUSALS: dict[str, type[HeadwayError]] = {
    "HW002": LeaseLost,
    "HW003": NotAllowed,
    "HW004": InvalidJob,
    "HW005": QueueFull,
    "HW006": NotFound,
    "HW007": InvalidPayload,
    "HW008": TenantSuspended,
    "HW009": StoreMoved,
    "HW010": UnknownKind,
}
_UNDEFINED = frozenset({"3F000", "42883", "42P01"})  # schema, function, table
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_JOB_ID = re.compile(r"\s*\(?job_id=(" + _UUID.pattern + r")\)?", re.IGNORECASE)


def from_sqlstate(code: str | None, message: str, detail: str | None) -> HeadwayError | None:
    """The error that one of our SQLSTATEs means; None for any other.

    A `Duplicate` takes its job id from the DETAIL, or from `job_id=…` at the end of the message.
    """
    if code == "HW001":
        found = _UUID.search(detail or "") or _UUID.search(message)
        return Duplicate(_JOB_ID.sub("", message), found.group() if found else None)
    if code in _REFUSALS:
        return _REFUSALS[code](message)
    if code in _UNDEFINED and "headway" in message:
        return SchemaMissing(f"this database has no Headway schema, or an older one ({message}): run headway migrate")
    return None


def from_postgres_error(error: BaseException) -> HeadwayError | None:
    """The same from an exception of any PostgreSQL driver, even wrapped by SQLAlchemy or Django."""
    # the innermost is the driver's own: SQLAlchemy 2.0 gives its errors of asyncpg the code, but all else as one text
    found = [fields for fields in map(_fields, causes(error)) if fields[0] is not None]
    return from_sqlstate(*found[-1]) if found else None


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, its `orig` (SQLAlchemy), and what it was raised from."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        cause = todo.pop()
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            todo += [cause.__cause__, getattr(cause, "orig", None)]


def _fields(error: BaseException) -> tuple[str | None, str, str | None]:
    """SQLSTATE, message and DETAIL, wherever this driver keeps them."""
    if error.args and isinstance(error.args[0], dict):  # pg8000
        fields = error.args[0]
        return fields.get("C"), str(fields.get("M", error)), fields.get("D")
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    diag = getattr(error, "diag", None)
    message = getattr(diag, "message_primary", None) or getattr(error, "message", None) or str(error)
    detail = getattr(diag, "message_detail", None) or getattr(error, "detail", None)
    return code if isinstance(code, str) else None, str(message), detail if isinstance(detail, str) else None
