"""Sessions of browsers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headway.model.access import Session
from headway.store.ops import Op
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, first, nothing, read


class SessionVerbs:
    def create_session(
        self, secret_hash: bytes, key_id: str, *, expires_at: datetime, valid_until: datetime
    ) -> Op[None]:
        return call(
            "select headway.create_session($1, $2, $3::timestamptz, $4::timestamptz)",
            [secret_hash, key_id, expires_at, valid_until],
            nothing,
        )

    def find_session(self, secret_hash: bytes) -> Op[Session | None]:
        return read(
            "select * from headway.find_session($1)",
            [secret_hash],
            lambda rows: Session(*map(utc, rows[0])) if rows else None,
        )

    def extend_sessions(self, valid_until: Mapping[bytes, datetime]) -> Op[None]:
        ordered = sorted(valid_until.items())
        return call(
            "select headway.extend_sessions($1::bytea[], $2::timestamptz[])",
            [[secret_hash for secret_hash, _ in ordered], [until for _, until in ordered]],
            nothing,
        )

    def delete_session(self, secret_hash: bytes) -> Op[None]:
        return call("select headway.delete_session($1)", [secret_hash], nothing)

    def prune_sessions(self, *, limit: int) -> Op[int]:
        return call("select headway.prune_sessions($1::integer)", [limit], first)
