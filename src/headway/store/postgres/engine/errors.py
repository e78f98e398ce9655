"""PostgreSQL's errors in Headway's words, and which of them are worth another try."""

from __future__ import annotations

import psycopg

from headway.errors import HeadwayError, NotAllowed, StoreBusy, StoreError, StoreFailed, StoreUnavailable
from headway.secrets import own, redact
from headway.store.postgres.engine.connection import NoAnswer
from headway.store.postgres.engine.pool import CannotConnect
from headway.store.sqlstate import from_sqlstate

LOCKED = "55P03"
# SQLSTATEs that mean "not now": connection, disk full, too many connections, shutdown, serialization
_PASSING = ("08", "531", "533", "57P", "40", "58", "25006")
# those that condemn the data: its form, a constraint, its size. Any other failure (an internal error, no memory, a
# statement_timeout) may work the next time, or in smaller parts
_OF_THE_DATA = ("22", "23", "54")
# a plan or prepared statement of this session is older than the functions, which were reinstalled
STALE = frozenset({"XX000", "0A000", "26000"})
_UNDONE = frozenset({"40001", "40P01"})  # serialization failure, deadlock


def translated(error: psycopg.Error, where: str) -> HeadwayError:
    """The error of `headway.errors` that it means; `where` is the database, as shown to people."""
    code = error.sqlstate or ""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = redact(text, own())  # a driver may quote the URL
    ours = from_sqlstate(code, error.diag.message_primary or text, error.diag.message_detail)
    if ours is not None:
        return ours
    if code == "42501":
        return NotAllowed(
            f"this login may not do that on {where}: {text}. Connect as a worker's login "
            "(headway.grant_worker makes one), or as the owner of the schema"
        )
    if code == LOCKED:
        return StoreBusy(
            f"another transaction holds what this operation needs on {where} ({text}). Nothing was "
            "written: find it with headway doctor, and try again"
        )
    if code.startswith(_PASSING) or (isinstance(error, psycopg.OperationalError) and not code):
        lost = not isinstance(error, CannotConnect) and (code or "08").startswith(("08", "57P"))
        written = "It may have been written or not; repeating it is safe" if lost else "Nothing was written"
        return StoreUnavailable(
            f"PostgreSQL at {where} cannot be used right now: {text}. {written}: check that "
            "the server is up and reachable (headway doctor), then try again"
        )
    if code and not code.startswith(_OF_THE_DATA):
        return StoreFailed(f"PostgreSQL failed at the operation ({code}): {text}. Nothing was written: try again")
    return StoreError(f"PostgreSQL refused the operation ({code or 'no code'}): {text}. Nothing was written")


def worth_another_try(error: psycopg.Error, *, repeatable: bool, first: bool) -> bool:
    """Whether to run an op again at once: it was undone, or the connection broke and it is repeatable."""
    if isinstance(error, NoAnswer):
        return repeatable and first  # once: each silence costs the caller the whole time
    if error.sqlstate in _UNDONE or error.sqlstate in STALE:
        return True
    return repeatable and _lost_connection(error)


def _lost_connection(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith(("08", "57P"))
