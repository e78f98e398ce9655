"""Reservations: a queue for one holder alone, until it is given back or expires."""

from __future__ import annotations

from headway.clock import from_micros
from headway.model.reservation import Reservation
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.op import SqliteOp, Verbs
from headway.store.sqlite.sql import statements

_SQL = statements("reservations")


class ReservationVerbs(Verbs):
    def reserve(self, queue: str, reservation_id: str, *, holder: str, expires_ms: int) -> Op[Reservation]:
        def steps() -> Steps[Reservation]:
            now = self._clock.now()
            yield Statement(_SQL["reserve"], (queue, reservation_id, holder, now, now + expires_ms * 1000))
            rows = yield Statement(_SQL["reservation"], (queue,))
            return _reservation(rows[0])

        return SqliteOp(steps, writes=True)

    def unreserve(self, queue: str, reservation_id: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            return bool((yield Statement(_SQL["unreserve"], (queue, reservation_id))))

        return SqliteOp(steps, writes=True)

    def reservations(self) -> Op[list[Reservation]]:
        def steps() -> Steps[list[Reservation]]:
            return [_reservation(row) for row in (yield Statement(_SQL["reservations"], (self._clock.now(),)))]

        return SqliteOp(steps, writes=False)

    def running_in(self, queue: str) -> Op[int]:
        def steps() -> Steps[int]:
            ((count,),) = yield Statement(_SQL["running_in"], (queue,))
            return int(count)

        return SqliteOp(steps, writes=False)


def _reservation(row: Row) -> Reservation:
    queue, found_id, holder, since, expires_at = row
    return Reservation(queue, found_id, holder, from_micros(since), from_micros(expires_at))
