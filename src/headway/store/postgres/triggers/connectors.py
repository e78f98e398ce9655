"""Connectors' configurations: where requests go and what they carry, under a name."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.checks import check_connector, check_connector_change
from headway.model.connector import Connector, ConnectorChange, NewConnector
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.verbs import read
from headway.store.postgres.triggers.encode import change_text, fields_of, value_text

_CONNECTORS = """
select c.id, c.tenant_id, coalesce(n.slug, c.tenant_id::text), c.name, c.kind, c.url, c.headers::text, c.options::text,
       c.events::text, c.description, c.enabled, c.disabled_reason, c.secret_version, c.old_secret_ends_at, c.revision,
       c.created_by, c.created_at, c.updated_at
  from headway.connector_configs c
  left join headway.tenants n on n.id = c.tenant_id
"""
_CONNECTOR = _CONNECTORS + " where c.id = $1::uuid"
_FIND_CONNECTORS = (
    _CONNECTORS
    + """
 where ($1::uuid[] is null or c.id = any ($1))
   and ($2::uuid is null or c.tenant_id = $2)
   and ($3::text is null or c.name = $3)
   and ($4::text is null or c.kind = $4)
   and ($5::uuid is null or c.id > $5)
 order by c.id
 limit $6::integer
"""
)


class ConnectorVerbs:
    def create_connector(self, connector: NewConnector, *, actor: str | None) -> Op[Connector]:
        def steps() -> Steps[Connector]:
            check_connector(connector)
            rows = yield Statement("select headway.create_connector($1::json, $2)", [value_text(connector), actor])
            return _read((yield Statement(_CONNECTOR, [rows[0][0]]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def change_connector(
        self, connector_id: str, change: ConnectorChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Connector | None]:
        def steps() -> Steps[Connector | None]:
            check_connector_change(change)
            rows = yield Statement(
                "select headway.change_connector($1::uuid, $2::json, $3::uuid, $4)",
                [connector_id, change_text(change), tenant_id, actor],
            )
            return _read((yield Statement(_CONNECTOR, [connector_id]))[0]) if rows[0][0] else None

        return Op(steps, writes=True, refusable=True, atomic=True)

    def delete_connector(self, connector_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(
                "select headway.delete_connector($1::uuid, $2::uuid, $3)", [connector_id, tenant_id, actor]
            )
            return bool(rows[0][0])

        return Op(steps, writes=True, refusable=True)

    def connectors(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        name: str | None,
        kind: str | None,
        limit: int,
        after: str | None,
    ) -> Op[list[Connector]]:
        return read(
            _FIND_CONNECTORS,
            [None if ids is None else list(ids), tenant_id, name, kind, after, limit],
            lambda rows: [_read(row) for row in rows],
        )


def _read(row: Row) -> Connector:
    return Connector(**fields_of(Connector, row))
