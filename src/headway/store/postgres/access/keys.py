"""API keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headway.model.access import ApiKey, NewApiKey, StoredKey, check_key, key_made
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read

_FIELDS = ", ".join(f"(f.key).{name}" for name in ApiKey.__struct_fields__)


class KeyVerbs:
    def create_key(self, key: NewApiKey, *, actor: str | None) -> Op[ApiKey]:
        def steps() -> Steps[ApiKey]:
            check_key(key)
            rows = yield Statement(
                "select * from headway.create_key("
                "$1, $2, $3, $4, $5, $6::uuid, $7::text[], $8::text[], $9::timestamptz, $10, $11)",
                [
                    *(key.id, key.secret_hash, key.name, key.role, key.mode, key.tenant_id),
                    *(list(key.queues), list(key.kinds), key.expires_at, actor, key_made(key)),
                ],
            )
            return _key(rows[0])

        return Op(steps, writes=True, refusable=True)

    def keys(self, *, tenant_id: str | None) -> Op[list[ApiKey]]:
        return read("select * from headway.list_keys($1::uuid)", [tenant_id], lambda rows: [_key(row) for row in rows])

    def find_key(self, key_id: str) -> Op[StoredKey | None]:
        return read(
            f"select {_FIELDS}, f.secret_hash from headway.find_key($1) f",  # noqa: S608 - names of a struct
            [key_id],
            lambda rows: StoredKey(_key(rows[0][:-1]), bytes(rows[0][-1])) if rows else None,
        )

    def revoke_key(self, key_id: str, *, tenant_id: str | None, actor: str | None) -> Op[ApiKey | None]:
        return call(
            "select * from headway.revoke_key($1, $2::uuid, $3)",
            [key_id, tenant_id, actor],
            lambda rows: _key(rows[0]) if rows else None,
        )

    def touch_keys(self, used: Mapping[str, datetime]) -> Op[None]:
        ordered = sorted(used.items())
        return call(
            "select headway.touch_keys($1::text[], $2::timestamptz[])",
            [[key_id for key_id, _ in ordered], [at for _, at in ordered]],
            nothing,
        )


def _key(row: Row) -> ApiKey:
    values = dict(zip(ApiKey.__struct_fields__, map(utc, row), strict=True))
    tenant_id = values["tenant_id"]
    return ApiKey(
        **values
        | {
            "tenant_id": None if tenant_id is None else str(tenant_id),
            "queues": tuple(values["queues"]),
            "kinds": tuple(values["kinds"]),
        }
    )
