"""Sessions of browsers: a cookie in place of a key, as good as the key that it began with."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

from starlette.requests import Request

from headway.api.access.keys import REMEMBERED_S, Keys
from headway.api.access.lookups import Lookups
from headway.api.access.rates import Strangers
from headway.api.serving.settings import ServerSettings
from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.clock import from_micros
from headway.model.access import ApiKey, Session

_MOST = 10_000
_SAFE = ("GET", "HEAD", "OPTIONS")
_MINUTE = timedelta(minutes=1)


class Sessions:
    """The sessions that were used lately. Asks the database about each every few seconds."""

    def __init__(
        self, app: Headway, keys: Keys, settings: ServerSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._keys = keys
        self._idle = timedelta(milliseconds=settings.session_idle_ms)
        self._longest = timedelta(milliseconds=settings.session_max_ms)
        self._monotonic = monotonic
        self._found: OrderedDict[bytes, tuple[Session, float]] = OrderedDict()
        self._lookups = Lookups(self._look_up)
        self.strangers = Strangers(monotonic)  # not that of keys: whoever invents those keeps no browser out
        self._used: dict[bytes, Session] = {}  # what the database does not know yet
        self.begun: Callable[[Request, ApiKey], None] | None = None  # told of each new session

    async def check(self, request: Request) -> ApiKey | None:
        """The key of the request's session; None if it has no cookie. Raises `Refused`: 401, or 403 where another
        site sent it."""
        secret = request.cookies.get(cookie_name(request))
        if not secret:
            return None
        if request.method not in _SAFE and not is_same_origin(request):
            raise Refused(
                403,
                "a request that changes something, with a session's cookie, has to come from a page of this server",
                code="CrossSite",
                fix="send Authorization: Bearer hw_… instead",
            )
        secret_hash = _hash(secret)
        is_new = secret_hash not in self._found and secret_hash not in self._lookups
        with self.strangers.looked_up(address_of(request)) if is_new else nullcontext():
            found = await self._session(secret_hash)
            key = None if found is None else await self._keys.valid(found.key_id)
            if found is None or key is None:
                raise Refused(401, "this session is over", fix="log in again", headers={"WWW-Authenticate": "Bearer"})
        self._note_use(secret_hash, found)
        return key

    async def begin(self, request: Request, key: ApiKey, longest: timedelta | None = None) -> tuple[Session, str]:
        """A new session of the key, and the cookie to set; `longest` is how long it may last, if that is less."""
        secret = secrets.token_urlsafe(32)
        now = from_micros(self._app.clock.now())
        expires = now + min(self._longest, longest or self._longest)
        expires = expires if key.expires_at is None else min(expires, key.expires_at)
        made = Session(key.id, now, expires, min(expires, now + self._idle))
        op = self._app.store.ops.create_session(
            _hash(secret), key.id, expires_at=made.expires_at, valid_until=made.valid_until
        )
        await self._app.store.arun(op)
        self._found[_hash(secret)] = (made, self._monotonic())  # no stranger, and looked up at its first use
        if self.begun is not None:
            self.begun(request, key)
        return made, _cookie(request, secret, int((expires - now).total_seconds()))

    async def end(self, request: Request) -> str:
        """End the request's session, if it has one; the cookie to set."""
        secret = request.cookies.get(cookie_name(request))
        if secret:
            await self._app.store.arun(self._app.store.ops.delete_session(_hash(secret)))
            # afterwards: another request of the page may have looked it up meanwhile
            self._found.pop(_hash(secret), None)
            self._used.pop(_hash(secret), None)
        return _cookie(request, "", 0)

    async def write_uses(self) -> None:
        """Store how long the sessions that were used are valid now."""
        used, self._used = self._used, {}
        if used:
            try:
                until = {secret_hash: each.valid_until for secret_hash, each in used.items()}
                await self._app.store.arun(self._app.store.ops.extend_sessions(until))
            except BaseException:
                self._used = used | self._used
                raise

    async def _session(self, secret_hash: bytes) -> Session | None:
        found, until = self._found.get(secret_hash, (None, 0.0))
        if found is None or self._monotonic() >= until:
            found = await self._lookups.get(secret_hash)
        return found if found is not None and found.valid_until > from_micros(self._app.clock.now()) else None

    async def _look_up(self, secret_hash: bytes) -> Session | None:
        asked = self._monotonic()
        found = await self._app.store.arun(self._app.store.ops.find_session(secret_hash))
        self._found.pop(secret_hash, None)
        if found is not None:
            self._found[secret_hash] = (found, asked + REMEMBERED_S)
            if len(self._found) > _MOST:
                self._found.popitem(last=False)
        return found

    def _note_use(self, secret_hash: bytes, session: Session) -> None:
        until = min(session.expires_at, from_micros(self._app.clock.now()) + self._idle)
        known = self._used.get(secret_hash, session)
        if until - known.valid_until >= _MINUTE:
            self._used[secret_hash] = Session(session.key_id, session.created_at, session.expires_at, until)


def address_of(request: Request) -> str:
    return "" if request.client is None else request.client.host


def cookie_name(request: Request) -> str:
    """Over TLS a name that browsers accept from this host alone, and only as a secure cookie."""
    return "__Host-headway" if request.url.scheme == "https" else "headway"


def _cookie(request: Request, value: str, max_age_s: int) -> str:
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{cookie_name(request)}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}"


def is_same_origin(request: Request) -> bool:
    said = request.headers.get("sec-fetch-site")
    if said is not None:
        return said == "same-origin"
    return request.headers.get("origin") == f"{request.url.scheme}://{request.headers.get('host', '')}"


def _hash(secret: str) -> bytes:
    # 256 random bits: no salt and no slow hash
    return hashlib.sha256(secret.encode()).digest()
