"""API keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from headway.clock import from_micros, to_micros
from headway.model.access import ApiKey, NewApiKey, StoredKey, check_key, key_made
from headway.model.refusals import id_taken
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record

_SQL = statements("access/keys")
_TIMES = ("created_at", "expires_at", "last_used_at", "revoked_at")


class KeyVerbs(Verbs):
    def create_key(self, key: NewApiKey, *, actor: str | None) -> Op[ApiKey]:
        def steps() -> Steps[ApiKey]:
            check_key(key)
            now = self._clock.now()
            expires = None if key.expires_at is None else to_micros(key.expires_at)
            made = yield Statement(
                _SQL["create"],
                (
                    *(key.id, key.secret_hash, key.name, key.role, key.mode, key.tenant_id),
                    *(json_list(key.queues), json_list(key.kinds), expires, now, actor),
                ),
            )
            if made:
                yield record(now, key.tenant_id, None, actor, "key.created", key_made(key))
            stored = _stored((yield Statement(_SQL["get"], (key.id,)))[0])
            if stored.secret_hash != key.secret_hash:
                raise id_taken("key", key.id)
            return stored.key

        return SqliteOp(steps, writes=True)

    def keys(self, *, tenant_id: str | None) -> Op[list[ApiKey]]:
        def steps() -> Steps[list[ApiKey]]:
            return [_stored(row).key for row in (yield Statement(_SQL["list"], (tenant_id,)))]

        return SqliteOp(steps, writes=False)

    def find_key(self, key_id: str) -> Op[StoredKey | None]:
        def steps() -> Steps[StoredKey | None]:
            rows = yield Statement(_SQL["get"], (key_id,))
            return _stored(rows[0]) if rows else None

        return SqliteOp(steps, writes=False)

    def revoke_key(self, key_id: str, *, tenant_id: str | None, actor: str | None) -> Op[ApiKey | None]:
        def steps() -> Steps[ApiKey | None]:
            rows = yield Statement(_SQL["get"], (key_id,))
            if not rows or (tenant_id is not None and _stored(rows[0]).key.tenant_id != tenant_id):
                return None
            key = _stored(rows[0]).key
            now = self._clock.now()
            if (yield Statement(_SQL["revoke"], (key_id, now, actor))):
                yield record(now, key.tenant_id, None, actor, "key.revoked", f"{key.id} ({key.name})")
            return _stored((yield Statement(_SQL["get"], (key_id,)))[0]).key

        return SqliteOp(steps, writes=True)

    def touch_keys(self, used: Mapping[str, datetime]) -> Op[None]:
        def steps() -> Steps[None]:
            yield Batch(_SQL["touch"], [(key_id, to_micros(at)) for key_id, at in sorted(used.items())])

        return SqliteOp(steps, writes=True)


def _stored(row: Row) -> StoredKey:
    *columns, secret_hash = row
    values = dict(zip(ApiKey.__struct_fields__, columns, strict=True))
    values |= {name: None if values[name] is None else from_micros(values[name]) for name in _TIMES}
    values |= {name: tuple(msgspec.json.decode(values[name])) for name in ("queues", "kinds")}
    return StoredKey(ApiKey(**values), secret_hash)
