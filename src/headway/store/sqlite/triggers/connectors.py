"""Connectors' configurations: created, changed and deleted under names that are unique in their tenant; audited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.clock import to_micros
from headway.model import audit, refusals
from headway.model.checks import check_connector, check_connector_change, check_owner, check_revision
from headway.model.connector import Connector, ConnectorChange, NewConnector
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_connector
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, given, json_list
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.audit import record, record_change

_SQL = statements("triggers/connectors")
_CHANGEABLE = tuple(name for name in ConnectorChange.__struct_fields__ if name != "of_revision")


class ConnectorVerbs(Verbs):
    def create_connector(self, connector: NewConnector, *, actor: str | None) -> Op[Connector]:
        def steps() -> Steps[Connector]:
            check_connector(connector)
            now = self._clock.now()
            there = yield from _read([connector.id])
            if there:
                check_owner("connector", connector.id, connector.tenant_id, there[0].tenant_id)
                return there[0]
            yield from name_tenants([connector], now)
            yield from _refuse_taken(connector.tenant_id, connector.name)
            yield Statement(_SQL["insert"], (*_row(connector), now))
            yield record(now, connector.tenant_id, None, actor, "connector.created", connector.name)
            return (yield from _read([connector.id]))[0]

        return SqliteOp(steps, writes=True)

    def change_connector(
        self, connector_id: str, change: ConnectorChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Connector | None]:
        def steps() -> Steps[Connector | None]:
            check_connector_change(change)
            now = self._clock.now()
            rows = yield Statement(_SQL["changing"], (connector_id, tenant_id))
            if not rows:
                return None
            tenant, revision, *current = rows[0]
            before: dict[str, Any] = dict(zip(_CHANGEABLE, current, strict=True))
            check_revision("connector", before["name"], change.of_revision, revision)
            after = before | {name: value for name, value in given(change).items() if name in _CHANGEABLE}
            if isinstance(after["old_secret_ends_at"], datetime):
                after["old_secret_ends_at"] = to_micros(after["old_secret_ends_at"])
            if after["name"] != before["name"]:
                yield from _refuse_taken(tenant, after["name"])
            yield Statement(_SQL["change"], (connector_id, *after.values(), now))
            detail = audit.fields_changed(before["name"], change)
            values = audit.values_changed(before, after)
            yield record_change(now, tenant, None, actor, "connector.changed", detail, values)
            return (yield from _read([connector_id]))[0]

        return SqliteOp(steps, writes=True)

    def delete_connector(self, connector_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(_SQL["delete"], (connector_id, tenant_id))
            for tenant, name in rows:
                yield record(self._clock.now(), tenant, None, actor, "connector.deleted", name)
            return bool(rows)

        return SqliteOp(steps, writes=True)

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
        def steps() -> Steps[list[Connector]]:
            if tenant_id and name and ids is None:
                rows = yield Statement(_SQL["named"], (tenant_id, name))
            else:
                wanted = None if ids is None else json_list(ids)
                rows = yield Statement(_SQL["page"], (tenant_id, name, kind, after or "", limit, wanted))
            return (yield from _read([connector_id for (connector_id,) in rows]))

        return SqliteOp(steps, writes=False)


def _read(ids: Sequence[str]) -> Steps[list[Connector]]:
    """Those of these configurations that exist, in order of id."""
    if not ids:
        return []
    rows = yield Statement(_SQL["read"], (json_list(ids),))
    return [to_connector(row) for row in rows]


def _row(connector: NewConnector) -> tuple[Any, ...]:
    return (
        *(connector.id, connector.tenant_id, connector.name, connector.kind, connector.url, connector.headers),
        *(connector.options, connector.events, connector.description, connector.enabled, connector.created_by),
    )


def _refuse_taken(tenant_id: str, name: str) -> Steps[None]:
    if (yield Statement(_SQL["named"], (tenant_id, name))):
        raise refusals.name_taken("a connector", name)
