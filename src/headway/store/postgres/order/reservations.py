"""Reservations: a queue kept for one holder."""

from __future__ import annotations

from headway.model.reservation import Reservation
from headway.store.ops import Op, Row
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, first, read


class ReservationVerbs:
    def reserve(
        self, queue: str, reservation_id: str, *, holder: str, expires_ms: int, actor: str | None = None
    ) -> Op[Reservation]:
        return call(
            "select * from headway.reserve($1, $2::uuid, $3, $4::bigint, $5)",
            [queue, reservation_id, holder, expires_ms, actor],
            lambda rows: _reservation(rows[0]),
        )

    def unreserve(self, queue: str, reservation_id: str, *, actor: str | None = None) -> Op[bool]:
        return call("select headway.unreserve($1, $2::uuid, $3)", [queue, reservation_id, actor], first)

    def reservations(self) -> Op[list[Reservation]]:
        return read(
            "select r.queue, r.id, r.holder, r.since, r.expires_at from headway.reservations r"
            " where r.expires_at > headway.now() order by r.queue",
            [],
            lambda rows: [_reservation(row) for row in rows],
        )

    def running_in(self, queue: str) -> Op[int]:
        return read(
            "select count(*) from headway.jobs j where j.status = 'running' and j.queue = $1",
            [queue],
            first,
        )


def _reservation(row: Row) -> Reservation:
    return Reservation(*map(utc, row))
