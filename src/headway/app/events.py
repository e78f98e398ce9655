"""The verbs of events: emit, look, retry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from headway import secrets
from headway.app.base import VerbBase, then
from headway.app.tenants import found
from headway.define.triggers import event_name
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.codec import check_batch, check_text, encode
from headway.model.event import Event, EventStatus, NewEvent
from headway.model.ids import as_id, given_id, new_id
from headway.model.request import Request
from headway.store.ops import Op, Steps

_OWN = "headway."


class EventVerbs(VerbBase):
    """Emitting stores an event; any worker handles it."""

    def emit(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
        conn: Any = None,
    ) -> str:
        """Publish a fact: it is stored, and every trigger on it enqueues a job. Returns the event's id.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits. Raises
        `InvalidJob`, `InvalidPayload`.
        """
        event = self.build_event(name, payload, tenant=tenant, correlation_id=correlation_id, created_by=created_by)
        return self.emit_many([event], conn=conn)[0]

    def emit_many(self, events: Iterable[NewEvent], *, conn: Any = None, request: Request | None = None) -> list[str]:
        """Publish what `app.build_event(…)` made: one transaction, all or none. Returns the ids. A `request` that was
        done before raises `Replayed`."""
        batch = [self._my_event(event) for event in events]
        if refs := {event.tenant for event in batch if not event.tenant_id and event.tenant is not None}:
            batch = with_tenant_ids(batch, self._look_up(refs, create=True, conn=conn))
        if self._tracing is None:
            return self._store_events(batch, conn, request)
        names = {event.name for event in batch}
        with self._tracing.sending("emit", names.pop() if len(names) == 1 else None, batch) as traced:
            return self._store_events(traced, conn, request)

    def _store_events(self, batch: list[NewEvent], conn: Any, request: Request | None) -> list[str]:
        op = self._once(request, self._emitting(batch))
        ids = self._store.run(op) if conn is None else self._store.run_in(conn, op)
        self._tell_of_events(conn)
        return ids

    def _emitting(self, events: list[NewEvent]) -> Op[list[str]]:
        check_batch((event.payload for event in events), "events")
        return self._store.ops.emit(events)

    def build_event(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
    ) -> NewEvent:
        """What `emit` would store, for `emit_many`."""
        if event_name(name, "name").startswith(_OWN):
            raise InvalidJob(f"events named {_OWN}… are the engine's own: choose another name than {name}")
        owner = self._named_tenant(tenant)
        return NewEvent(
            id=new_id(),
            tenant=owner,
            tenant_id=self._tenants.get(owner),  # or "": emit_many looks it up
            name=name,
            payload=payload_of(payload, self.payload_limit),
            correlation_id=None if correlation_id is None else check_text(correlation_id, "correlation_id"),
            created_by=None if created_by is None else check_text(created_by, "created_by"),
        )

    def events(
        self,
        *,
        name: str | Collection[str] | None = None,
        status: EventStatus | Collection[EventStatus] | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
        raw: bool = False,
    ) -> list[Event]:
        """The newest events that match, newest first; `status` is pending, handled or failed. `name` and `status` may
        be several: an event has one of them."""
        return self._read(self._events(name, status, tenant, limit, before, raw), raw=raw)

    def get_event(self, event_id: str | UUID, *, raw: bool = False) -> Event:
        """One event, with the error of a trigger that could not fire; raises `NotFound`."""
        return self._read(self._event(event_id, raw), raw=raw)

    def retry_event(self, event_id: str | UUID, *, actor: str | None = None, conn: Any = None) -> None:
        """Handle a failed event again, by the triggers that failed; raises `NotFound`, `NotAllowed` (not failed)."""
        self._run(self._retry_event(event_id, actor), conn)
        self._tell_of_events(conn)

    def retry_events(self, ids: Sequence[str | UUID], *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Handle again those of these events that failed; returns their ids."""
        done = self._run(
            self._store.ops.retry_events(
                [as_id(each, "event") for each in ids], tenant_id=self._visible_tenant, actor=actor
            ),
            conn,
        )
        self._tell_of_events(conn)
        return done

    # as ops

    def _my_event(self, event: NewEvent) -> NewEvent:
        if not isinstance(event, NewEvent):
            raise InvalidJob(f"emit_many takes what build_event(…) gives, not {type(event).__name__}")
        if self._is_for_one_tenant and event.tenant != self._own_tenant and event.tenant != self._visible_tenant:
            raise NotAllowed(f"this app acts for tenant {self._own_tenant} only, not for {event.tenant}")
        return event

    def _events(
        self,
        name: str | Collection[str] | None,
        status: EventStatus | Collection[EventStatus] | None,
        tenant: str | UUID | None,
        limit: int,
        before: str | UUID | None,
        raw: bool,
    ) -> Op[list[Event]]:
        statuses: Any = _several(status)
        for each in statuses or ():
            if each not in ("pending", "handled", "failed"):
                raise InvalidJob(f"status={each!r} does not exist: use pending, handled or failed")
        return self._store.ops.events(
            None,
            tenant_id=self._tenant_to_read(tenant),
            names=_several(name),
            statuses=statuses,
            limit=limit,
            before=None if before is None else given_id(before, "before"),
            raw=raw,
        )

    def _event(self, event_id: str | UUID, raw: bool = False) -> Op[Event]:
        key = as_id(event_id, "event")
        op = self._store.ops.events(
            [key], tenant_id=self._visible_tenant, names=None, statuses=None, limit=1, before=None, raw=raw
        )
        return then(op, lambda found: found[0] if found else _missing(key))

    def _retry_event(self, event_id: str | UUID, actor: str | None) -> Op[None]:
        key = as_id(event_id, "event")

        def steps() -> Steps[None]:
            event = yield from self._event(key).steps()
            done = yield from self._store.ops.retry_events([key], tenant_id=self._visible_tenant, actor=actor).steps()
            if not done:
                raise NotAllowed(f"event {key} is {event.status}: only a failed event can be retried")

        return Op(steps, writes=True, atomic=True)


def payload_of(payload: Any, limit: int) -> str:
    text = encode(payload, limit=limit, what="event")
    secrets.check_none(text, "event")
    return text


def with_tenant_ids(events: list[NewEvent], ids: Mapping[str, str]) -> list[NewEvent]:
    return [
        event if event.tenant_id else msgspec.structs.replace(event, tenant_id=found(str(event.tenant), ids))
        for event in events
    ]


def _several(given: str | Collection[str] | None) -> list[str] | None:
    return None if given is None else [given] if isinstance(given, str) else list(given)


def _missing(event_id: str) -> Any:
    raise NotFound(f"there is no event {event_id} (or it is another tenant's, or it was pruned)")
