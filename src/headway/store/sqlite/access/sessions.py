"""Sessions of browsers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headway.clock import from_micros, to_micros
from headway.model.access import Session
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

_SQL = statements("access/sessions")


class SessionVerbs(Verbs):
    def create_session(
        self, secret_hash: bytes, key_id: str, *, expires_at: datetime, valid_until: datetime
    ) -> Op[None]:
        def steps() -> Steps[None]:
            times = (self._clock.now(), to_micros(expires_at), to_micros(valid_until))
            yield Statement(_SQL["create"], (secret_hash, key_id, *times))

        return SqliteOp(steps, writes=True)

    def find_session(self, secret_hash: bytes) -> Op[Session | None]:
        def steps() -> Steps[Session | None]:
            rows = yield Statement(_SQL["find"], (secret_hash, self._clock.now()))
            return Session(rows[0][0], *map(from_micros, rows[0][1:])) if rows else None

        return SqliteOp(steps, writes=False)

    def extend_sessions(self, valid_until: Mapping[bytes, datetime]) -> Op[None]:
        def steps() -> Steps[None]:
            yield Batch(_SQL["extend"], [(each, to_micros(until)) for each, until in sorted(valid_until.items())])

        return SqliteOp(steps, writes=True)

    def delete_session(self, secret_hash: bytes) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["delete"], (secret_hash,))

        return SqliteOp(steps, writes=True)

    def prune_sessions(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["prune_probe"], (self._clock.now(),))
            return None if found else 0

        def steps() -> Steps[int]:
            return len((yield Statement(_SQL["prune"], (self._clock.now(), limit))))

        return SqliteOp(steps, writes=True, probe=probe)
