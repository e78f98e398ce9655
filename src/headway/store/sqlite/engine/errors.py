"""SQLite's result codes in our words, and retries for those that pass by themselves."""

from __future__ import annotations

import random
import time

from headway.errors import StoreError, StoreFailed, StoreMoved, StoreUnavailable
from headway.store.sqlite.engine.connection import code_of

_BUSY, _LOCKED, _NOMEM, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _PROTOCOL, _NOTADB = (
    5, 6, 7, 8, 10, 11, 13, 14, 15, 26,
)  # fmt: skip
_PERM, _AUTH, _TOOBIG, _CONSTRAINT, _MISMATCH, _RANGE = 3, 23, 18, 19, 20, 25
_OF_THE_DATA = (_TOOBIG, _CONSTRAINT, _MISMATCH, _RANGE)  # the values are at fault, not the file

PATIENCE_S = 60.0
# how the refusals of a transfer begin, as its triggers raise them
MOVED = ("the work of this database was moved to", "work is being moved into this database")
LONGEST_PAUSE_S = 0.01


def is_busy(error: Exception) -> bool:
    """Another connection has the lock for a moment: a writer, a recovery, a change of the journal mode."""
    return code_of(error) & 0xFF in (_BUSY, _LOCKED, _PROTOCOL)


def is_of_the_file(error: Exception) -> bool:
    """The file or its disk failed, not the statement: everything in the same transaction fails with it."""
    return is_busy(error) or code_of(error) & 0xFF in (
        _NOMEM, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB, _PERM, _AUTH,
    )  # fmt: skip


class Patience:
    """Short, random pauses up to a deadline. Random, so that no process always loses the race for the lock."""

    def __init__(self, seconds: float = PATIENCE_S, *, growth: float = 1.5) -> None:
        """Each pause is longer than the one before by `growth`."""
        self._since = time.monotonic()
        self._until = self._since + seconds
        self._pause = 0.0005
        self._growth = growth

    def wait(self) -> bool:
        """Pause a moment; False when the deadline has passed."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(random.uniform(0, self._pause))
        self._pause = min(self._pause * self._growth, LONGEST_PAUSE_S)
        return True

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._since

    def count_anew(self) -> None:
        """Let `waited_s` begin now; the deadline stays."""
        self._since = time.monotonic()


def no_answer(path: str, seconds: float) -> StoreUnavailable:
    """The error of a call that got no answer in time."""
    return StoreUnavailable(
        f"{path} gave no answer for {seconds:g} s: another process holds a write transaction open (find it with: "
        f"fuser -v {path}), or its disk hangs. It may have been written or not; repeating it is safe"
    )


def _is_moved(error: Exception) -> bool:
    """Whether a trigger of a transfer refused the write (store/transfer/sqlite_side.py)."""
    return code_of(error) & 0xFF == _CONSTRAINT and str(error).startswith(MOVED)


def explain(error: Exception, path: str, patience_s: float = PATIENCE_S) -> StoreError:
    """What happened to the file, why, and what to do."""
    code = code_of(error) & 0xFF
    said = f"(SQLite: {error})"
    if is_busy(error):
        return StoreUnavailable(
            f"{path} stayed locked for {patience_s:g} s: another process holds a write transaction open "
            f"{said}. Nothing was written; find that process with: fuser -v {path}"
        )
    match code:
        case 13:
            return StoreUnavailable(
                f"the disk of {path} is full {said}. Nothing was written; free some space, then try again"
            )
        case 10 | 7:
            return StoreUnavailable(
                f"{path} cannot be read or written right now {said}. Nothing was written; "
                "check its disk (space, quota, errors), then try again"
            )
        case 8 | 3 | 23:
            return StoreFailed(
                f"{path} cannot be written {said}. Nothing was written; "
                "the user of this process needs write permission on the file and on its directory"
            )
        case 14:
            return StoreUnavailable(
                f"{path} cannot be opened {said}. Nothing was written; check that this process may "
                "read and write it and its directory, and the limit of open files"
            )
        case 26:
            return StoreFailed(
                f"{path} is not a SQLite database {said}, and was left as it is: give Headway another path"
            )
        case 11:
            return StoreFailed(
                f"{path} is damaged {said}. Stop its workers, keep a copy, and recover what can be read: "
                f"sqlite3 {path} .recover | sqlite3 new.db"
            )
    if _is_moved(error):
        return StoreMoved(str(error))
    if code in _OF_THE_DATA:
        return StoreError(f"SQLite refused the operation on {path}: {error}. Nothing was written")
    return StoreFailed(f"SQLite failed at the operation on {path}: {error}. Nothing was written: try again")
