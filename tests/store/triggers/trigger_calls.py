"""Words for what starts work: definitions, templates, schedules, event triggers, events, and the fires of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.string import TextLoader

from headway.model.connector import Connector, ConnectorChange, NewConnector
from headway.model.definition import Definition, DefinitionChange, NewDefinition
from headway.model.event import Event, NewEvent
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import NewJob
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.model.trigger import (
    Declaration,
    Due,
    Fire,
    Firing,
    Handling,
    NewFire,
    NewTrigger,
    Trigger,
    TriggerChange,
)
from tests.tenant_ids import tenant_id

ODD_JSON = (
    '{"z": 1, "a": [9223372036854775807, -9223372036854775808, 9007199254740993], "": null, "é☃🚂": "\\u00fc\\n\\"",'
    ' "deep": {"b": {"a": [[], {}, [1.5, true, false, ""]]}}, "0": "{{event.x}} %s {} \' -- $1 ?1"}'
)
"""A payload that a store may be tempted to change: numbers beyond a double, keys that are not in order, braces."""


def owned(options: dict[str, Any]) -> dict[str, Any]:
    """The tenant's id beside its name."""
    return {"tenant_id": tenant_id(options["tenant"]) if "tenant" in options else DEFAULT_TENANT_ID, **options}


def new_connector(**options: Any) -> NewConnector:
    made = new_id()
    given = {"id": made, "name": f"connector-{made}", "kind": "connector.http.request", "url": "https://a.example"}
    return NewConnector(**{**given, **owned(options)})


def new_template(**options: Any) -> NewTemplate:
    made = new_id()
    return NewTemplate(**{"id": made, "name": f"template-{made}", "kind": "mail", **owned(options)})


def new_schedule(**options: Any) -> NewTrigger:
    """A schedule of kind mail, each night, unless the options say other things."""
    return _new_trigger("schedule", {} if "every_ms" in options else {"cron": "0 2 * * *"}, options)


def new_listener(event: str, **options: Any) -> NewTrigger:
    """An event trigger of kind mail."""
    return _new_trigger("event", {"event": event}, options)


def _new_trigger(type_: str, base: dict[str, Any], options: dict[str, Any]) -> NewTrigger:
    made = new_id()
    kind = {} if "template_id" in options or "signal" in options else {"kind": "mail"}
    return NewTrigger(**{"id": made, "type": type_, "name": f"{type_}-{made}", **kind, **base, **owned(options)})


def new_event(name: str, payload: Any = None, **options: Any) -> NewEvent:
    text = msgspec.json.encode(payload).decode()
    return NewEvent(**{"id": new_id(), "name": name, "payload": text, **owned(options)})


def job_of(trigger: Trigger, **options: Any) -> NewJob:
    """The job that a fire of this trigger makes."""
    base = {
        "id": new_id(),
        "tenant": trigger.tenant,
        "tenant_id": trigger.tenant_id,
        "kind": trigger.kind or "mail",
        "source": trigger.type,
        "source_ref": trigger.name,
        "trigger_id": trigger.id,
    }
    return NewJob(**{**base, **options})


def new_fire(trigger: Trigger, nominal_at: datetime | None = None, **options: Any) -> NewFire:
    """A fire with a job, unless it has an error."""
    if "error" not in options:
        options = {"job": job_of(trigger), **options}
    return NewFire(**{"id": new_id(), "trigger_id": trigger.id, "nominal_at": nominal_at, **options})


def firing(trigger: Trigger, *fires: NewFire | datetime, next_fire_at: datetime | None, **options: Any) -> Firing:
    """A firing as it is planned by the row that was read; a time stands for a fire with a job."""
    base = {"trigger_id": trigger.id, "revision": trigger.revision, "due_at": trigger.next_fire_at}
    made = tuple(new_fire(trigger, each) if isinstance(each, datetime) else each for each in fires)
    return Firing(**{**base, "next_fire_at": next_fire_at, "fires": made, **options})


def handling(event_id: str, *fires: NewFire | Trigger, left: bool = False) -> Handling:
    """What an event comes to; a trigger stands for a fire of it with a job."""
    made = tuple(new_fire(each) if isinstance(each, Trigger) else each for each in fires)
    return Handling(event_id=event_id, fires=made, left=left)


def refused(fire: NewFire) -> NewFire:
    """The same fire with a job that no store takes: it raises `Duplicate` where the key "taken" is."""
    assert fire.job is not None
    job = msgspec.structs.replace(fire.job, unique_key="taken", on_conflict="raise")
    return msgspec.structs.replace(fire, job=job)


def unwanted(trigger: Trigger) -> NewFire:
    """A fire for an event that the trigger does not want."""
    return NewFire(id=new_id(), trigger_id=trigger.id)


def states(db: Any, trigger: Trigger) -> list[tuple[datetime | None, str, str | None]]:
    """Its fires, oldest first: the nominal time, the status, and the job."""
    return [(each.nominal_at, each.status, each.job_id) for each in reversed(db.fires(trigger_id=trigger.id))]


@contextmanager
def own_transaction(db: Any) -> Iterator[Any]:
    """A transaction on a connection of the application's own; gives what runs ops in it."""
    with closing(db.connect()) as conn:
        if db.dialect == "postgres":
            for name in ("uuid", "json"):  # as on the store's own connections
                conn.adapters.register_loader(name, TextLoader)
        conn.execute("begin")
        yield lambda op: db.store.run_in(conn, op)
        conn.execute("commit")


class TriggerCalls:
    """The part of `Db` that concerns what starts work."""

    run: Any
    ops: Any
    now: Any
    sql: Any

    # definitions

    def change_definition(self, kind: str, *, actor: str | None = None, **values: Any) -> Definition:
        answer: Definition = self.run(self.ops.change_definition(kind, DefinitionChange(**values), actor=actor))
        return answer

    def delete_definition(self, kind: str, *, actor: str | None = None) -> bool:
        answer: bool = self.run(self.ops.delete_definition(kind, actor=actor))
        return answer

    def definitions(self, *kinds: str) -> list[Definition]:
        """These, or all."""
        answer: list[Definition] = self.run(self.ops.definitions(kinds or None))
        return answer

    def definition(self, kind: str) -> Definition:
        (answer,) = self.definitions(kind)
        return answer

    def declare(self, *declared: NewDefinition | NewTrigger) -> tuple[str, ...]:
        answer = self.run(
            self.ops.declare(
                Declaration(
                    definitions=tuple(each for each in declared if isinstance(each, NewDefinition)),
                    schedules=tuple(each for each in declared if isinstance(each, NewTrigger)),
                )
            )
        )
        return tuple(answer)

    # connectors

    def connector(self, *, actor: str | None = None, **options: Any) -> Connector:
        answer: Connector = self.run(self.ops.create_connector(new_connector(**options), actor=actor))
        return answer

    def change_connector(
        self, connector_id: str, *, tenant_id: str | None = None, actor: str | None = None, **values: Any
    ) -> Connector | None:
        change = ConnectorChange(**values)
        answer: Connector | None = self.run(
            self.ops.change_connector(connector_id, change, tenant_id=tenant_id, actor=actor)
        )
        return answer

    def delete_connector(self, connector_id: str, *, tenant_id: str | None = None, actor: str | None = None) -> bool:
        answer: bool = self.run(self.ops.delete_connector(connector_id, tenant_id=tenant_id, actor=actor))
        return answer

    def connectors(self, ids: Any = None, **filters: Any) -> list[Connector]:
        wanted = {"tenant_id": None, "name": None, "kind": None, "limit": 100, "after": None, **filters}
        answer: list[Connector] = self.run(self.ops.connectors(ids, **wanted))
        return answer

    # templates

    def template(self, *, actor: str | None = None, **options: Any) -> Template:
        return self.create_template(new_template(**options), actor=actor)

    def create_template(self, template: NewTemplate, *, actor: str | None = None) -> Template:
        answer: Template = self.run(self.ops.create_template(template, actor=actor))
        return answer

    def change_template(
        self, template_id: str, *, tenant_id: str | None = None, actor: str | None = None, **values: Any
    ) -> Template | None:
        change = TemplateChange(**values)
        answer: Template | None = self.run(
            self.ops.change_template(template_id, change, tenant_id=tenant_id, actor=actor)
        )
        return answer

    def delete_template(self, template_id: str, *, tenant_id: str | None = None, actor: str | None = None) -> bool:
        answer: bool = self.run(self.ops.delete_template(template_id, tenant_id=tenant_id, actor=actor))
        return answer

    def templates(
        self,
        ids: Sequence[str] | None = None,
        *,
        tenant_id: str | None = None,
        name: str | None = None,
        limit: int = 1_000,
        after: str | None = None,
    ) -> list[Template]:
        answer: list[Template] = self.run(
            self.ops.templates(ids, tenant_id=tenant_id, name=name, limit=limit, after=after)
        )
        return answer

    # triggers

    def schedule(self, *, actor: str | None = None, **options: Any) -> Trigger:
        """A stored schedule that is due now, unless its next_fire_at says other things."""
        return self.create_trigger(new_schedule(**{"next_fire_at": self.now(), **options}), actor=actor)

    def listener(self, event: str, *, actor: str | None = None, **options: Any) -> Trigger:
        return self.create_trigger(new_listener(event, **options), actor=actor)

    def create_trigger(self, trigger: NewTrigger, *, actor: str | None = None) -> Trigger:
        answer: Trigger = self.run(self.ops.create_trigger(trigger, actor=actor))
        return answer

    def change_trigger(
        self, trigger_id: str, *, tenant_id: str | None = None, actor: str | None = None, **values: Any
    ) -> Trigger | None:
        change = TriggerChange(**values)
        answer: Trigger | None = self.run(self.ops.change_trigger(trigger_id, change, tenant_id=tenant_id, actor=actor))
        return answer

    def delete_trigger(self, trigger_id: str, *, tenant_id: str | None = None, actor: str | None = None) -> bool:
        answer: bool = self.run(self.ops.delete_trigger(trigger_id, tenant_id=tenant_id, actor=actor))
        return answer

    def triggers(self, **where: Any) -> list[Trigger]:
        base = {"tenant_id": None, "type": None, "name": None, "events": None, "limit": 1_000, "after": None}
        answer: list[Trigger] = self.run(self.ops.triggers(**{**base, **where}))
        return answer

    def trigger(self, trigger_id: str) -> Trigger:
        before = str(UUID(int=UUID(trigger_id).int - 1))  # a page that begins with it
        (answer,) = self.triggers(after=before, limit=1)
        assert answer.id == trigger_id
        return answer

    # events

    def emit(self, name: str, payload: Any = None, **options: Any) -> str:
        (answer,) = self.emit_all([new_event(name, payload, **options)])
        return answer

    def emit_all(self, events: Sequence[NewEvent]) -> list[str]:
        answer: list[str] = self.run(self.ops.emit(events))
        return answer

    def retry_events(self, *ids: str, tenant_id: str | None = None, actor: str | None = None) -> list[str]:
        answer: list[str] = self.run(self.ops.retry_events(ids, tenant_id=tenant_id, actor=actor))
        return answer

    def events(self, ids: Sequence[str] | None = None, **where: Any) -> list[Event]:
        base = {"tenant_id": None, "names": None, "statuses": None, "limit": 1_000, "before": None}
        answer: list[Event] = self.run(self.ops.events(ids, **{**base, **where}))
        return answer

    def event(self, event_id: str) -> Event:
        (answer,) = self.events([event_id])
        return answer

    # the tick

    def due(self, *, kinds: Sequence[str] = (), declared: Sequence[str] = (), limit: int = 100) -> Due:
        answer: Due = self.run(self.ops.due(kinds=kinds, declared=declared, limit=limit))
        return answer

    def due_ids(self, **options: Any) -> list[str]:
        """The schedules that are due, soonest first."""
        return [met.trigger.id for met in self.due(**options).schedules]

    def heard(self, **options: Any) -> dict[str, list[str]]:
        """The events that wait, oldest first, each with the ids of the triggers that it meets."""
        return {each.event.id: [met.trigger.id for met in each.triggers] for each in self.due(**options).events}

    def fire(self, *firings: Firing) -> list[Fire]:
        answer: list[Fire] = self.run(self.ops.fire(firings))
        return answer

    def fire_now(self, trigger: Trigger, *, next_fire_at: datetime | None = None, **options: Any) -> Fire:
        """Fire a schedule that is due now, once, by its row as it is; it is due again at `next_fire_at`."""
        row = self.trigger(trigger.id)
        (answer,) = self.fire(firing(row, new_fire(row, row.next_fire_at, **options), next_fire_at=next_fire_at))
        return answer

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None = None, actor: str | None = None) -> Fire | None:
        answer: Fire | None = self.run(self.ops.run_trigger(fire, tenant_id=tenant_id, actor=actor))
        return answer

    def backfill(
        self, trigger: Trigger, *fires: NewFire, tenant_id: str | None = None, actor: str | None = None
    ) -> list[Fire] | None:
        op = self.ops.backfill(trigger.id, fires, tenant_id=tenant_id, actor=actor)
        answer: list[Fire] | None = self.run(op)
        return answer

    def fired_times(self, trigger: Trigger, *times: datetime) -> list[datetime]:
        answer: list[datetime] = self.run(self.ops.fired_times(trigger.id, times))
        return answer

    def handle(self, *handlings: Handling) -> list[Fire]:
        answer: list[Fire] = self.run(self.ops.handle(handlings))
        return answer

    def prune_fires(
        self, *, events_ms: int = 10**12, failed_ms: int = 10**12, fires_ms: int = 10**12, limit: int = 1_000
    ) -> int:
        answer: int = self.run(
            self.ops.prune_fires(events_ms=events_ms, failed_ms=failed_ms, fires_ms=fires_ms, limit=limit)
        )
        return answer

    def fires(self, **where: Any) -> list[Fire]:
        base = {"tenant_id": None, "trigger_id": None, "event_id": None, "limit": 1_000, "before": None}
        answer: list[Fire] = self.run(self.ops.fires(**{**base, **where}))
        return answer

    # people

    def audited(self) -> list[tuple[str | None, str]]:
        """What people did to anything but jobs: who, and what."""
        rows = self.sql("select actor, action from {audit} where job_id is null order by id")
        return [(actor, action) for actor, action in rows]

    def audit_details(self) -> list[str]:
        return [text or "" for (text,) in self.sql("select detail from {audit} where job_id is null order by id")]
