"""Reservations: a queue belongs to one holder until it is given back or expires."""

from __future__ import annotations

from headway.clock import from_micros
from headway.model.reservation import Reservation
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record_setting

_SQL = statements("order/reservations")


class ReservationVerbs(Verbs):
    def reserve(
        self, queue: str, reservation_id: str, *, holder: str, expires_ms: int, actor: str | None = None
    ) -> Op[Reservation]:
        def steps() -> Steps[Reservation]:
            now = self._clock.now()
            yield from expire(now)
            taken = yield Statement(_SQL["reservation"], (queue,))
            yield Statement(_SQL["reserve"], (queue, reservation_id, holder, now, now + expires_ms * 1000))
            if not taken:
                yield record_setting(now, queue, actor or holder, "reserve")
            rows = yield Statement(_SQL["reservation"], (queue,))
            return _reservation(rows[0])

        return SqliteOp(steps, writes=True)

    def unreserve(self, queue: str, reservation_id: str, *, actor: str | None = None) -> Op[bool]:
        def steps() -> Steps[bool]:
            now = self._clock.now()
            yield from expire(now)
            rows = yield Statement(_SQL["unreserve"], (queue, reservation_id))
            for (holder,) in rows:
                yield record_setting(now, queue, actor or holder, "unreserve")
            return bool(rows)

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


def any_expired(now: int) -> Steps[bool]:
    ((found,),) = yield Statement(_SQL["any_expired"], (now,))
    return bool(found)


def expire(now: int) -> Steps[None]:
    """Remove the expired reservations, and audit that."""
    for queue, holder in (yield Statement(_SQL["expired"], (now,))):
        yield record_setting(now, queue, holder, "reservation.expired")


def _reservation(row: Row) -> Reservation:
    queue, found_id, holder, since, expires_at = row
    return Reservation(queue, found_id, holder, from_micros(since), from_micros(expires_at))
