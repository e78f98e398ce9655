"""Rows of a flow's journal as people read them: their values decoded, and told apart by what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.errors import InvalidJob, NotFound
from headway.model import codec
from headway.model.codec import encode
from headway.model.journal import ANSWERS, CANCEL, Row, RowKind, effective
from headway.model.status import Status

LAST_FAILURE = "last-failure"
"""Stands for the last operation that failed, where a fork asks before which one it begins."""

SET_ASIDE = "set aside: "
"""How the error of an attempt begins that found the code changed."""

_BETWEEN = (", asked for ", ", and the function ", " as ", " for another ")
"""What stands between the recorded place and what the code did, in that error."""

_BEGAN = "$began"
_MOST_NAMED = 20


class JournalRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a flow has recorded of an operation: its answer, or a note about it.

    Answers are `done`, `failed`, `signal`, `ended` (a called job is over), `timer` and `cancel`; notes are `called`,
    `due`, `begun`, `tried` (a failed try), `settled`, `cut` and `forgotten`.
    """

    seq: int  # answers reach the function in this order; of `settled` notes below 0, without an order
    kind: RowKind
    place: str  # the operation: its name, from the second on with a number
    value: Any = None  # what a step gave, what came with a signal, what a called job gave
    error: str | None = None
    tries: int | None = None  # of a step, this one included
    signal: str | None = None  # the name of the signal that came
    job_id: str | None = None  # of a called or enqueued job
    status: Status | None = None  # how that ended
    due_at: datetime | None = None
    at: datetime
    took_ms: int | None = None
    fence: int  # the execution that wrote it; 0: copied by a fork
    counts: bool = True  # False: taken back by a retry, an accept or a restart

    @property
    def is_answer(self) -> bool:
        return self.kind in ANSWERS


class _Said(msgspec.Struct):
    """What a value says, whatever its row is of."""

    at: float | None = None  # seconds since 1970
    id: str | None = None
    status: Status | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    name: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")
    kind: str | None = None
    tries: int | None = None
    error: str | None = None


def shown_rows(rows: Sequence[Row], *, everything: bool = False, raw: bool = False) -> list[JournalRow]:
    """The rows of one journal, in order: those that count, or `everything`."""
    counted = {row.seq for row in effective(rows)}
    tried: dict[str, int] = {}
    shown: list[JournalRow] = []
    for row in rows:
        counts = row.seq in counted
        if counts and row.kind == "tried":
            tried[row.place] = tried.get(row.place, 0) + 1
        if everything or (counts and row.place != _BEGAN and row.kind != "cut"):
            shown.append(_shown(row, tried.get(row.place, 0) if counts else 0, counts=counts, raw=raw))
    return shown


def _shown(row: Row, tried: int, *, counts: bool, raw: bool) -> JournalRow:
    more: dict[str, Any] = {}
    error = row.error
    text = bytes(row.value) if row.value is not None else b"null"
    said = _said(text) if row.kind not in ("done", "settled", "cancel") or row.place.startswith("enqueue:") else _Said()
    match row.kind:
        case "done" if row.place.startswith("enqueue:"):
            more = {"job_id": said.id}
        case "done":
            more = {"value": _value(text, raw), "tries": tried + 1}
        case "settled" | "cancel":
            more = {"value": _value(text, raw)}
        case "failed":
            error = ": ".join(part for part in (said.kind, error) if part) or None
            more = {"tries": said.tries}
        case "tried":
            more = {"tries": tried or None, "due_at": _moment(said.at)}
        case "due":
            more = {"due_at": _moment(said.at)}
        case "called":
            more = {"job_id": said.id}
        case "ended":
            error = said.error
            more = {"job_id": said.id, "status": said.status, "value": _value(bytes(said.result), raw)}
        case "signal":
            more = {"signal": said.name, "value": _value(bytes(said.payload), raw)}
    return JournalRow(
        seq=row.seq,
        kind=row.kind,
        place=row.place,
        error=error,
        at=row.at,
        took_ms=row.took_ms,
        fence=row.fence,
        counts=counts,
        **more,
    )


def _said(text: bytes) -> _Said:
    try:
        return msgspec.json.decode(text, type=_Said)
    except msgspec.ValidationError:
        return _Said()


def _value(text: bytes, raw: bool) -> Any:
    if text == b"null":
        return None
    return codec.as_stored(text.decode(), what="result") if raw else codec.shown(text.decode(), what="result")


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def is_set_aside(error: str | None) -> bool:
    """Whether an attempt ended because the code did not fit what was recorded."""
    return error is not None and error.startswith(SET_ASIDE)


def set_aside_at(rows: Sequence[Row], error: str | None) -> int | None:
    """The number of the recorded answer that the code did not ask for, of an attempt's error; None if it names none."""
    if error is None or not is_set_aside(error):
        return None
    told = error.removeprefix(SET_ASIDE).removeprefix("recorded ")
    answers = [row for row in effective(rows) if row.kind in ANSWERS]
    named = [row for row in answers if told.startswith(tuple(f"{row.place}{then}" for then in _BETWEEN))]
    # a place may hold a comma itself: the longest one that fits
    return max(named, key=lambda row: len(row.place)).seq if named else None


def payload_of_last_restart(rows: Sequence[Row]) -> str | None:
    """The arguments that `flow.restart` gave last, as JSON text; None if the job's own hold."""
    found = None
    for row in rows:
        if row.kind == "forgotten":
            said = msgspec.json.decode(row.value or b"{}", type=dict[str, msgspec.Raw])
            found = bytes(said["payload"]).decode() if "payload" in said else found
    return found


def fork_point(job_id: str, rows: Sequence[Row], before: str | int | None) -> int:
    """The number of the row before which a fork of this flow begins; raises `InvalidJob`, `NotFound`."""
    counted = [row for row in effective(rows) if row.seq > 0 and row.place != _BEGAN]
    known = ", ".join(dict.fromkeys(row.place for row in counted[-_MOST_NAMED:] if row.place)) or "nothing yet"
    if before is None:
        raise InvalidJob(
            f"job {job_id} is a flow: say before which operation the fork goes on, by its place or number, or "
            f"before={LAST_FAILURE!r}; it has recorded {known}"
        )
    if isinstance(before, bool) or not isinstance(before, str | int):
        raise InvalidJob(f"before={before!r} is no place and no number: give one, as app.journal(id) shows it")
    last = max((row.seq for row in rows), default=0)
    if isinstance(before, int):
        if not 1 <= before <= max(last, 0) + 1:
            raise NotFound(f"flow {job_id} has no row {before}: its journal has the numbers 1 to {last}")
        return before
    if before == LAST_FAILURE:
        failed = [row.seq for row in counted if row.kind == "failed" or (row.kind == "ended" and _failed(row))]
        if not failed:
            raise NotFound(f"no operation of flow {job_id} has failed: it has recorded {known}")
        return failed[-1]
    here = [row for row in counted if row.place == before]
    if not here:
        raise NotFound(f"flow {job_id} has no operation {before!r}: it has recorded {known}")
    return next((row.seq for row in here if row.kind in ANSWERS), here[0].seq)


def _failed(row: Row) -> bool:
    return _said(bytes(row.value or b"null")).status != "succeeded"


def replaced_results(
    job_id: str, rows: Sequence[Row], before: int, results: Mapping[str, Any], *, limit: int
) -> dict[int, str]:
    """By number, the JSON text of the answers that a fork is given instead of those recorded; raises `InvalidJob`,
    `NotFound`."""
    if not isinstance(results, Mapping) or not all(isinstance(place, str) for place in results):
        raise InvalidJob(f"results={results!r} is not results by their places: give {{'charge': 'ch_7'}}")
    answers = {row.place: row for row in effective(rows) if row.kind in ANSWERS and row.place != CANCEL}
    found: dict[int, str] = {}
    for place, value in results.items():
        row = answers.get(place)
        if row is None:
            known = ", ".join(list(answers)[-_MOST_NAMED:]) or "none"
            raise NotFound(f"flow {job_id} has no answer at {place!r} to replace: it has {known}")
        if row.seq >= before:
            raise InvalidJob(
                f"{place} is not copied, because the fork goes on before it (row {row.seq} of {before}): fork before a "
                "later operation to replace it"
            )
        text = encode(value, limit=limit, what=f"result of {place}")
        given = msgspec.Raw(text.encode())
        said = _said(bytes(row.value or b"null"))
        if row.kind in ("done", "failed") and not row.place.startswith(("enqueue:", "call:")):
            found[row.seq] = text
        elif row.kind == "ended":
            found[row.seq] = encode({"id": said.id, "status": "succeeded", "result": given}, limit=limit + 200)
        elif row.kind == "signal":
            found[row.seq] = encode({"name": said.name, "payload": given}, limit=limit + 300)
        else:
            raise InvalidJob(f"{place} has no result that could be replaced: it is {_NOUNS.get(row.kind, 'a refusal')}")
    return found


_NOUNS = {"timer": "a time that was over", "done": "a job that was enqueued"}


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that a parked flow has noted, and that has no answer yet."""

    place: str
    due_at: datetime | None = None
    job_id: str | None = None  # the job that it called
    tries: int = 0  # of a step that is tried again
    error: str | None = None  # of its last try
    asked_at: datetime


def open_operations(rows: Sequence[JournalRow], note: str | None = None) -> list[Open]:
    """What a flow waits for beside signals: jobs, times and next tries; `note` is what it said when it parked, which
    leaves out what its function has given up."""
    answered = {row.place for row in rows if row.is_answer}
    found: dict[str, Open] = {}
    for row in rows:
        if row.place in answered or row.kind not in ("called", "due", "tried") or row.place == _BEGAN:
            continue
        known = found.get(row.place)
        found[row.place] = Open(
            place=row.place,
            due_at=row.due_at or (known.due_at if known else None),
            job_id=row.job_id or (known.job_id if known else None),
            tries=row.tries or (known.tries if known else 0),
            error=row.error or (known.error if known else None),
            asked_at=known.asked_at if known else row.at,
        )
    if note is None or " more" in note:
        return list(found.values())
    named = set(note.split(", "))
    # timers are not named; one that is over was given up
    return [each for each in found.values() if each.place in named or each.place.startswith("timer")]


def set_aside_between(error: str) -> tuple[str | None, str]:
    """The place that was recorded, where the error of an attempt names it, and both sides in words."""
    told = error.removeprefix(SET_ASIDE).partition("\n")[0]
    for then in _BETWEEN:
        place, found, _ = told.removeprefix("recorded ").partition(then)
        if found and told.startswith("recorded "):
            return place, told
    return None, told
