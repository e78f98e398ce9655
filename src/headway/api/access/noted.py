"""What the audit keeps of requests that change nothing: logins, refused keys and requests, exports, and whom a super
admin looked at. All of it is counted here and stored every minute, so that nobody can fill the audit by asking."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.clock import from_micros
from headway.model.access import ApiKey
from headway.model.actor import Caller, as_actor
from headway.model.audit import AccessNote
from headway.model.ids import is_id

if TYPE_CHECKING:
    from headway.api.routes import Route

_MOST = 500
"""Lines that are stored at once; what comes beyond them is counted together."""
_LOOKED_S = 3_600.0
_LOOKS = 10_000


def actor_of(key: ApiKey, *, request_id: str, address: str) -> Caller:
    """Who the audit says it was: the holder of a key, or the subject of an issuer's token."""
    who = key.id if ":" in key.id else f"key:{key.id}"
    return Caller.of(who, request_id=request_id, address=address, called=as_actor(key.name) if key.name else None)


class Noted:
    """The first of each kind has its request's id; the others of the same minute are counted."""

    def __init__(self, app: Headway, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._notes: dict[tuple[str | None, ...], tuple[AccessNote, int]] = {}
        self._looks: OrderedDict[tuple[str, str | None], float] = OrderedDict()

    def login(self, request: Request, key: ApiKey) -> None:
        """A session of this key began."""
        self._note("session.began", key, None, Exchange.of(request))

    def unknown(self, exchange: Exchange) -> None:
        """A key, token or session was not accepted."""
        note = AccessNote(
            action="key.refused", at=self._now(), request_id=exchange.request_id, address=exchange.address
        )
        self._count((note.action, note.address), note)

    @contextmanager
    def strangers(self, exchange: Exchange, *, sent: bool) -> Iterator[None]:
        """Within this, a 401 is noted, if a key, token or cookie was sent."""
        try:
            yield
        except Refused as refused:
            if refused.status == 401 and sent:
                self.unknown(exchange)
            raise

    @contextmanager
    def refusals(self, route: Route, key: ApiKey, exchange: Exchange) -> Iterator[None]:
        """Within this, a 403 is noted: the holder of the key may not do this."""
        try:
            yield
        except Refused as refused:
            if refused.status == 403:
                self._note("request.refused", key, f"{route.method} {route.path}", exchange)
            raise

    def exported(self, request: Request, key: ApiKey, what: str, tenant: str | None) -> None:
        """All of this is downloaded; of the tenant, by name or id, that a super admin looks at."""
        if tenant is not None and not is_id(tenant):
            what, tenant = f"{what} of {tenant}", None
        self._note("exported", key, what, Exchange.of(request), tenant)

    def looked(self, route: Route, key: ApiKey, tenant_id: str | None, exchange: Exchange) -> None:
        """A super admin reads what a tenant has, or what all have: noted once an hour."""
        if key.role != "superadmin" or route.method != "GET":
            return
        look = (key.id, tenant_id)
        now = self._monotonic()
        if now < self._looks.get(look, 0.0):
            return
        self._looks[look] = now + _LOOKED_S
        self._looks.move_to_end(look)
        if len(self._looks) > _LOOKS:
            self._looks.popitem(last=False)
        self._note("tenant.read", key, "all tenants" if tenant_id is None else None, exchange, tenant_id)

    async def store(self) -> None:
        """Store what was noted; what cannot be stored now is stored with the next."""
        notes, self._notes = self._notes, {}
        if not notes:
            return
        lines = [note if count == 1 else _counted(note, count) for note, count in notes.values()]
        try:
            await self._app.store.arun(self._app.store.ops.note_access(lines))
        except BaseException:
            for key, (note, count) in notes.items():
                self._count(key, note, count)
            raise

    def _note(
        self, action: str, key: ApiKey, detail: str | None, exchange: Exchange, tenant_id: str | None = None
    ) -> None:
        actor = actor_of(key, request_id=exchange.request_id, address=exchange.address)
        note = AccessNote(
            action=action,
            at=self._now(),
            actor=str(actor),
            actor_name=actor.called,
            tenant_id=key.tenant_id if tenant_id is None else tenant_id,
            detail=detail,
            request_id=exchange.request_id,
            address=exchange.address,
        )
        self._count((action, note.actor, note.tenant_id, detail, note.address), note)

    def _count(self, key: tuple[str | None, ...], note: AccessNote, times: int = 1) -> None:
        if key not in self._notes and len(self._notes) >= _MOST:
            key = (note.action,)
            note = AccessNote(action=note.action, at=note.at, detail="of many")
        first, count = self._notes.get(key, (note, 0))
        self._notes[key] = (first, count + times)

    def _now(self) -> datetime:
        return from_micros(self._app.clock.now())


def _counted(note: AccessNote, count: int) -> AccessNote:
    times = f"{count:,} times"
    return msgspec.structs.replace(note, detail=times if note.detail is None else f"{note.detail}: {times}")
