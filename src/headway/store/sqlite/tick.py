"""The periodic duties: promote what is due, cancel what expired, prune what is old."""

from __future__ import annotations

from headway.model.fleet import Promoted
from headway.model.status import Status
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.ending import holder_of_key, superseded
from headway.store.sqlite.op import SqliteOp, Verbs, positions
from headway.store.sqlite.sql import statements

_SQL = statements("tick")
_CANCEL = statements("cancel")
_EXPIRED = "expired"


class TickVerbs(Verbs):
    def promote(self, *, limit: int) -> Op[Promoted]:
        def probe() -> Steps[Promoted | None]:
            now = self._clock.now()
            ((due, expired, next_due),) = yield Statement(_SQL["probe"], (now,))
            return None if due or expired else Promoted(0, 0, _wait_ms(next_due, now))

        def steps() -> Steps[Promoted]:
            now = self._clock.now()
            expired = yield from _expire(now, limit)
            queued = yield from _queue_due(now, limit)
            ((next_due,),) = yield Statement(_SQL["next_due"])
            return Promoted(queued, expired, _wait_ms(next_due, now))

        return SqliteOp(steps, writes=True, probe=probe)

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            before = self._clock.now() - older_than_ms * 1000
            ((found,),) = yield Statement(_SQL["prune_probe"], (status, before))
            return None if found else 0

        def steps() -> Steps[int]:
            before = self._clock.now() - older_than_ms * 1000
            rows = yield Statement(_SQL["prune"], (status, before, limit))
            if rows:
                yield Batch(_SQL["prune_attempts"], rows)
            return len(rows)

        return SqliteOp(steps, writes=True, probe=probe)


def _expire(now: int, limit: int) -> Steps[int]:
    rows = yield Statement(_SQL["expired"], (now, limit))
    canceled = [(rowid, now, _EXPIRED) for rowid, status in rows if status != "running"]
    asked = [(rowid, now, _EXPIRED) for rowid, status in rows if status == "running"]
    if canceled:
        yield Batch(_CANCEL["cancel"], canceled)
    if asked:
        yield Batch(_CANCEL["ask"], asked)
    return len(rows)


def _queue_due(now: int, limit: int) -> Steps[int]:
    rows = yield Statement(_SQL["due"], (now, limit))
    places = iter((yield from positions(sum(row[1] for row in rows))))
    due = []
    ended = 0
    for rowid, first, key, asks in rows:
        move = (rowid, now, next(places) if first else None)
        holder = (yield from holder_of_key(rowid)) if asks else None
        if holder is not None:
            yield Statement(_CANCEL["supersede"], (rowid, now, superseded(key, holder)))
            ended += 1
        elif asks:
            # not in the batch: the next with this key must find it taken
            yield Statement(_SQL["queue"], move)
        else:
            due.append(move)
    if due:
        yield Batch(_SQL["queue"], due)
    return len(rows) - ended


def _wait_ms(next_due: int | None, now: int) -> int | None:
    return None if next_due is None else max(0, -((now - next_due) // 1000))
