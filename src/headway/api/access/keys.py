"""API keys: finds the key of a request, and remembers it for some seconds."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from hashlib import sha256

from headway.api.access.lookups import Lookups
from headway.api.access.rates import Strangers
from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.clock import from_micros
from headway.model.access import ApiKey, StoredKey
from headway.model.key_text import KeyText, read_key

REMEMBERED_S = 4.0  # a revoked key is refused everywhere after 5 seconds, a slow look at the database included
_IDS_REMEMBERED_S = 1.0
_MOST = 10_000
_NO_HASH = bytes(32)
_MINUTE = timedelta(minutes=1)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Keys:
    """The keys that were used lately. Asks the database about each every few seconds."""

    def __init__(self, app: Headway, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._found: OrderedDict[str, tuple[StoredKey, float]] = OrderedDict()
        self._lookups = Lookups(self._look_up)
        self._checked: OrderedDict[bytes, StoredKey] = OrderedDict()  # by a hash of what was sent: no secret is kept
        self._used: dict[str, datetime] = {}  # what the database does not know yet
        self._written: dict[str, datetime] = {}  # what it was told last: a key in `_found` may be older
        self._ids: set[str] = set()
        self._ids_until = monotonic()
        self._id_lookups = Lookups(self._look_up_ids)
        self.strangers = Strangers(monotonic)

    async def check(self, authorization: str | None, address: str = "") -> ApiKey:
        """The key of a request from this address; raises `Refused` with 401, or 429 for too many unknown ones."""
        sent = sha256((authorization or "").encode()).digest()
        checked = self._checked.get(sent)
        if checked is not None and self._remembered(checked.key.id) is checked:
            now = from_micros(self._app.clock.now())
            if checked.key.is_valid(now):
                self._note_use(checked.key, now)
                return checked.key
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Refused(
                401,
                "the request names no key",
                fix="send Authorization: Bearer hw_…; headway keys create makes a key",
                headers=_CHALLENGE,
            )
        given = read_key(text.strip())
        if given is None:
            raise Refused(401, "this is not a key, or a character of it is missing", headers=_CHALLENGE)
        stored = self._remembered(given.id)
        if stored is None or not _is_of(given, stored):
            stored = await self._found_again(given, address, wrong=stored is not None)
        now = from_micros(self._app.clock.now())
        if not stored.key.is_valid(now):
            raise _refused()
        self._note_use(stored.key, now)
        self._checked[sent] = stored
        if len(self._checked) > _MOST:
            self._checked.popitem(last=False)
        return stored.key

    async def valid(self, key_id: str) -> ApiKey | None:
        """The key of this id, if it is neither revoked nor expired: for a session, which shows no secret of it."""
        stored = await self._stored(key_id)
        now = from_micros(self._app.clock.now())
        if stored is None or not stored.key.is_valid(now):
            return None
        self._note_use(stored.key, now)
        return stored.key

    def forget(self, key_id: str) -> None:
        """Look at the database at its next use."""
        self._found.pop(key_id, None)

    async def write_uses(self) -> None:
        """Store when keys were last used: once a minute for each key that was."""
        used, self._used = self._used, {}
        if used:
            try:
                await self._app.store.arun(self._app.store.ops.touch_keys(used))
            except BaseException:
                self._used = used | self._used  # kept for the next round, with the time it was used
                raise
            self._written = used | self._used  # the keys of earlier rounds have been read again since

    async def _found_again(self, given: KeyText, address: str, *, wrong: bool) -> StoredKey:
        """What the database has of a key that is not known here, or whose secret is `wrong`. Both cost a look and
        are counted alike, so that nobody learns which ids there are; raises `Refused`."""
        counted = wrong or (given.id not in self._found and given.id not in self._lookups)
        if counted and not wrong and not self.strangers.has_room(address):
            # others at this address may have sent invented keys: one that there is does not wait for them
            counted = not await self._exists(given.id)
        with self.strangers.looked_up(address) if counted else nullcontext():
            stored = await self._lookups.get(given.id)
            if not _is_of(given, stored) or stored is None:
                if not counted:
                    self.strangers.take(address)
                raise _refused()
        return stored

    async def _stored(self, key_id: str) -> StoredKey | None:
        return self._remembered(key_id) or await self._lookups.get(key_id)

    async def _exists(self, key_id: str) -> bool:
        """Whether there is such a key: all ids are read at most once a second, however many keys are invented."""
        if self._monotonic() >= self._ids_until:
            await self._id_lookups.get("")
        return key_id in self._ids

    async def _look_up_ids(self, _: str) -> None:
        asked = self._monotonic()
        self._ids = {key.id for key in await self._app.store.arun(self._app.store.ops.keys(tenant_id=None))}
        self._ids_until = asked + _IDS_REMEMBERED_S

    def _remembered(self, key_id: str) -> StoredKey | None:
        """The key, where the database was asked within the last seconds."""
        found, until = self._found.get(key_id, (None, 0.0))
        return found if self._monotonic() < until else None

    async def _look_up(self, key_id: str) -> StoredKey | None:
        asked = self._monotonic()
        found = await self._app.store.arun(self._app.store.ops.find_key(key_id))
        self.forget(key_id)
        if found is not None:
            self._found[key_id] = (found, asked + REMEMBERED_S)
            if len(self._found) > _MOST:
                self._found.popitem(last=False)
        return found

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        last = self._written.get(key.id, key.last_used_at)
        if last is None or now - last >= _MINUTE:
            self._used[key.id] = self._written[key.id] = now.replace(second=0, microsecond=0)


def _is_of(given: KeyText, stored: StoredKey | None) -> bool:
    """Whether this text is that key; takes as long where there is none."""
    same = hmac.compare_digest(given.secret_hash, _NO_HASH if stored is None else stored.secret_hash)
    return same and stored is not None and stored.key.mode == given.mode


def _refused() -> Refused:
    return Refused(
        401,
        "this key is unknown, revoked or expired",
        fix="use another one; headway keys create makes a key",
        headers=_CHALLENGE,
    )
