"""The verbs of connectors' configurations: where requests go and what they carry, stored under a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.base import VerbBase, renamed, then
from headway.define.checks import name as checked_name
from headway.define.delivery_triggers import delivery_trigger, trigger_name
from headway.define.option_types import ConnectorChanges, ConnectorOptions
from headway.errors import InvalidJob, NotFound
from headway.model.codec import check_text, decode, encode
from headway.model.connector import (
    HTTP,
    KINDS,
    LONGEST_NAME,
    Connector,
    ConnectorChange,
    NewConnector,
    check_headers,
    check_options,
    check_patterns,
)
from headway.model.http_url import read_url
from headway.model.ids import given_id, new_id
from headway.model.trigger import TriggerChange
from headway.store.ops import Op, Steps

_LIMIT = 65_536


class ConnectorVerbs(VerbBase):
    """Name a configuration by its name, in this app's tenant or the given one; or by its id, a `UUID`."""

    def create_connector(self, name: str, url: str, **options: Unpack[ConnectorOptions]) -> Connector:
        """Store where `connector.http.request` (or another `kind`) sends requests: the base URL, and headers for all of
        them, whose secrets are references: `{"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}`.

        `options` are limits: `timeout`, `max_response` (bytes), `redirects` (at most 5), `expect` (statuses that count
        as success). Raises `Duplicate`, `InvalidJob`.
        """
        conn = options.pop("conn", None)
        return self._run(self._create_connector(name, url, options), conn)

    def get_connector(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Connector:
        """One configuration as it is now; raises `NotFound`."""
        return self._run(self._connector(name, tenant))

    def connectors(
        self,
        *,
        kind: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Connector]:
        """The configurations, oldest first; for the next page give the last one's id as `after`."""
        return self._run(self._connectors(kind, tenant, limit, after))

    def change_connector(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[ConnectorChanges],
    ) -> Connector:
        """Change name (`new_name=`), url, headers, options, events, description or enabled. Requests that are under way
        go on with what they read. With `if_match` only if its `revision` is one of these; raises `ChangedMeanwhile`."""
        return self._run(self._change_connector(name, tenant, actor, if_match, changes), conn)

    def delete_connector(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a configuration; jobs that name it end dead. Raises `NotFound`."""
        self._run(self._delete_connector(name, tenant, actor, if_match), conn)

    # as ops

    def _create_connector(self, name: str, url: str, options: ConnectorOptions) -> Op[Connector]:
        given: dict[str, Any] = {**options, "name": name, "url": url}
        tenant, actor, kind = (given.pop(each, None) for each in ("tenant", "actor", "kind"))
        if kind is not None and kind not in KINDS:
            raise InvalidJob(f"kind={kind!r} takes no configuration: give one of {', '.join(KINDS)}")
        owner = self._named_tenant(tenant)
        row = NewConnector(
            id=new_id(),
            tenant=owner,
            tenant_id=self._id_for(owner),
            kind=kind or HTTP,
            created_by=actor and str(actor),
            **_fields(kind or HTTP, given),
        )

        def steps() -> Steps[Connector]:
            made = yield from self._store.ops.create_connector(row, actor=actor).steps()
            yield from self._keep_triggers(None, made, actor)
            return made

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _connector(self, name: str | UUID, tenant: str | UUID | None) -> Op[Connector]:
        if isinstance(name, UUID):
            seen = self._tenant_to_read(tenant)
            by_id = self._store.ops.connectors([str(name)], tenant_id=seen, name=None, kind=None, limit=1, after=None)
            return then(by_id, lambda found: found[0] if found else _no_such(name))
        owner = self._named_tenant(tenant)
        op = self._store.ops.connectors(
            None, tenant_id=self._id_of(owner), name=checked_name(name, "connector"), kind=None, limit=1, after=None
        )
        return then(op, lambda found: found[0] if found else _missing(name, owner))

    def _connectors(
        self, kind: str | None, tenant: str | UUID | None, limit: int, after: str | UUID | None
    ) -> Op[list[Connector]]:
        return self._store.ops.connectors(
            None,
            tenant_id=self._tenant_to_read(tenant),
            name=None,
            kind=kind,
            limit=limit,
            after=None if after is None else given_id(after, "after"),
        )

    def _change_connector(
        self,
        name: str | UUID,
        tenant: str | UUID | None,
        actor: str | None,
        if_match: Collection[str] | None,
        changes: Mapping[str, Any],
    ) -> Op[Connector]:
        given = renamed(changes)
        if not given:
            raise InvalidJob("nothing to change was given")

        def steps() -> Steps[Connector]:
            found = yield from self._found_to_change("connector", self._connector, name, tenant, if_match)
            fields = _fields(found.kind, given)
            if fields.get("enabled"):
                fields["disabled_reason"] = None
            change = ConnectorChange(**fields)
            op = self._store.ops.change_connector(found.id, change, tenant_id=found.tenant_id, actor=actor)
            changed = (yield from op.steps()) or _missing(found.name, found.tenant)
            yield from self._keep_triggers(found, changed, actor)
            return changed

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _delete_connector(
        self, name: str | UUID, tenant: str | UUID | None, actor: str | None, if_match: Collection[str] | None
    ) -> Op[bool]:
        def steps() -> Steps[bool]:
            found = yield from self._found_to_change("connector", self._connector, name, tenant, if_match)
            yield from self._keep_triggers(found, None, actor)
            op = self._store.ops.delete_connector(found.id, tenant_id=found.tenant_id, actor=actor)
            return (yield from op.steps())

        return Op(steps, writes=True, atomic=True)

    def _keep_triggers(self, before: Connector | None, after: Connector | None, actor: str | None) -> Steps[None]:
        """Make, change and delete the triggers of a webhook endpoint, one for each of its events, in the transaction
        that changes it. One that somebody deleted stays away until its event is added again."""
        old, new = ([] if each is None else each.events for each in (before, after))
        ops = self._store.ops
        for event in [*old, *(each for each in new if each not in old)]:
            found = None
            if before is not None and event in old:
                name = trigger_name(before, event)
                page = ops.triggers(
                    tenant_id=before.tenant_id, type="event", name=name, events=[event], limit=1, after=None
                )
                found = next(iter((yield from page.steps())), None)
            if after is None or event not in new:
                if found is not None:
                    yield from ops.delete_trigger(found.id, tenant_id=found.tenant_id, actor=actor).steps()
                continue
            row = delivery_trigger(after, event, limit=self.payload_limit)
            if found is not None:
                change = TriggerChange(name=row.name, options=row.options, label=row.label)
                if (found.name, found.options, found.label) != (row.name, decode(row.options), row.label):
                    yield from ops.change_trigger(found.id, change, tenant_id=found.tenant_id, actor=actor).steps()
            elif event not in old:
                yield from ops.create_trigger(row, actor=actor).steps()


def _fields(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of what people give; raises `InvalidJob`."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        match name:
            case "name":
                made[name] = checked_name(value, name)
                if len(made[name]) > LONGEST_NAME:
                    raise InvalidJob(f"a connector's name has at most {LONGEST_NAME} characters")
            case "url":
                made[name] = str(read_url(value))
            case "headers":
                made[name] = encode(check_headers(value or {}), limit=_LIMIT, what=name)
            case "options":
                made[name] = encode(check_options(kind, value or {}), limit=_LIMIT, what=name)
            case "events":
                made[name] = encode(check_patterns(kind, value or []), limit=_LIMIT, what=name)
            case "description":
                made[name] = check_text(value, name, limit=500) if value else ""
            case "enabled":
                if not isinstance(value, bool):
                    raise InvalidJob(f"enabled={value!r} is not true or false")
                made[name] = value
            case _:
                changes = ", ".join(ConnectorChanges.__annotations__)
                raise InvalidJob(f"a connector has no {name}: change {changes}")
    return made


def _missing(name: str, tenant: str) -> Any:
    raise NotFound(f'tenant {tenant} has no connector "{name}": headway connectors list shows what there is')


def _no_such(connector_id: UUID) -> Any:
    raise NotFound(f"there is no connector {connector_id} (or it is another tenant's)")
