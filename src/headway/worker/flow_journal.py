"""What one execution of a flow writes into its journal: rows with their numbers, and how long it has become."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headway import logs
from headway.define.flow_run import Failed
from headway.errors import FlowMisused, HeadwayError, LeaseLost, StoreError
from headway.model.journal import Entry, Recorded, Row
from headway.worker.error_text import shown_message, storable
from headway.worker.outcome_secrets import check_child

if TYPE_CHECKING:
    from headway.worker.flow_execution import FlowExecution

log = logs.get_logger("headway.worker")

MOST_ROWS, MOST_BYTES = 10_000, 64 * 2**20
"""How long a journal may become; it is warned of before."""
_WARNED_AT = 0.8


class FlowJournal:
    """Numbers rows and has them written."""

    def __init__(self, execution: FlowExecution) -> None:
        self._execution = execution
        self._seq = self._rows = self._bytes = 0
        self._warned = False
        self._first: list[Entry] = []

    def begin(self, rows: Sequence[Row], counted: Sequence[Row]) -> None:
        """Go on behind these rows; what a restart has taken back does not count."""
        self._seq = max((row.seq for row in rows if row.seq > 0), default=0)
        self._rows = len(counted)
        self._bytes = sum(len(row.value or b"") + len(row.error or "") for row in counted)

    def note_first(self, place: str, value: str) -> None:
        """A `due` note that goes with the next rows."""
        self._first.append(self.entry("due", place, value=value))

    def entry(self, kind: Any, place: str, **more: Any) -> Entry:
        """A row with the next number."""
        self._seq += 1
        of = self._execution
        return Entry(job_id=of.job_id, fence=of.fence, seq=self._seq, kind=kind, place=place, **more)

    async def record(self, entries: Sequence[Entry]) -> Recorded:
        """Write rows; raises `LeaseLost`, `FlowMisused` for too many, and what the store refuses."""
        self._check_size(entries)
        for entry in entries:
            if entry.child is not None:
                check_child(entry.child, self._execution.ctx.given)
        first, self._first = self._first, []
        recorded = await self._execution.desk.recorder.record([*first, *entries])
        self._execution.desk.noted(recorded.at.get(self._execution.job_id, 0))
        return recorded

    async def answers(self, entries: list[Entry], dues: Sequence[tuple[str, str]] = ()) -> tuple[list[Entry], Recorded]:
        """Write answers, and when what is awaited is due; gives them as they were written: a child whose enqueue is
        refused is an answer, too."""
        notes = [self.entry("due", place, value=value) for place, value in dues]
        try:
            return entries, await self.record([*entries, *notes])
        except (LeaseLost, StoreError, FlowMisused):
            raise
        except HeadwayError as error:
            births = [entry for entry in entries if entry.child is not None]
            if not births:
                raise
            if len(entries) == 1:
                refused = _refused(births[0], error)
                return [refused], await self.record([refused, *notes])
        others = [entry for entry in entries if entry.child is None]
        written, recorded = await self.answers(others, dues) if others or dues else ([], Recorded([], {}))
        for birth in births:
            done, last = await self.answers([birth])
            written += done
            recorded = Recorded(lost=[], children={**recorded.children, **last.children}, at=last.at)
        return sorted(written, key=lambda entry: entry.seq), recorded

    def _check_size(self, entries: Sequence[Entry]) -> None:
        self._rows += len(entries)
        self._bytes += sum(entry.size for entry in entries)
        most = max(self._rows / MOST_ROWS, self._bytes / MOST_BYTES)
        if most > 1:
            raise FlowMisused(
                f"the journal of this flow has {self._rows:,} rows of {self._bytes:,} bytes, over the limit of "
                f"{MOST_ROWS:,} rows and {MOST_BYTES:,} bytes: let it begin anew in time with flow.restart(…), call "
                "jobs for its parts, and keep what is large as artifacts"
            )
        if most > _WARNED_AT and not self._warned:
            self._warned = True
            log.warning(
                "the journal of a flow becomes long: let it begin anew in time with flow.restart(…)",
                rows=self._rows,
                bytes=self._bytes,
                **self._execution.fields(),
            )


def row_of(entry: Entry, at: datetime) -> Row:
    """The row that an entry has become."""
    return Row(
        job_id=entry.job_id,
        seq=entry.seq,
        fence=entry.fence,
        kind=entry.kind,
        place=entry.place,
        value=None if entry.value is None else msgspec.Raw(entry.value.encode()),
        error=entry.error,
        print=entry.print,
        at=at,
        took_ms=entry.took_ms,
        signal=entry.signal,
    )


def json_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _refused(entry: Entry, error: HeadwayError) -> Entry:
    """The row of a child that could not be enqueued."""
    value = json_of(Failed(type(error).__name__))
    return msgspec.structs.replace(
        entry, kind="failed", value=value, error=storable(shown_message(str(error))), child=None, waits=False
    )
