"""Who may do what over HTTP: roles, and the API keys that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

import msgspec

from headway.errors import InvalidJob, NotAllowed
from headway.model.key_text import Mode

Role = Literal["viewer", "producer", "operator", "admin", "worker", "superadmin"]
ROLES: tuple[Role, ...] = get_args(Role)

KINDS_OF_ROLES: dict[str, tuple[Role, ...]] = {
    "connector.report.generate": ("operator", "admin", "superadmin"),
    "connector.webhook.deliver": ("admin", "superadmin"),
}
"""Kinds that not every enqueuer may enqueue over HTTP: reports read all jobs, and deliveries are signed as ours."""

# roles that may be narrowed to some queues and kinds
_NARROWED: tuple[Role, ...] = ("viewer", "producer", "operator", "admin", "worker")
# the roles of the keys that a role may make, in its own tenant
_MAKES: dict[Role, tuple[Role, ...]] = {
    "admin": ("viewer", "producer", "operator", "admin", "worker"),
    "superadmin": ROLES,
}


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be stored: its id and the hash of its secret."""

    id: str
    secret_hash: bytes
    name: str
    role: Role
    mode: Mode = "live"
    tenant_id: str | None = None
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    expires_at: datetime | None = None


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A stored key. Nothing in it opens anything: the secret is shown once, when the key is made."""

    id: str
    name: str
    role: Role
    mode: Mode
    tenant_id: str | None  # None: every tenant's
    queues: tuple[str, ...]  # none: every queue
    kinds: tuple[str, ...]  # none: every kind
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    last_used_at: datetime | None  # to the minute
    revoked_at: datetime | None
    revoked_by: str | None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class StoredKey(msgspec.Struct, frozen=True):
    """A key as it is looked up for a request."""

    key: ApiKey
    secret_hash: bytes


class Session(msgspec.Struct, frozen=True):
    """A browser's session: as good as its key, until it has not been used for a while, or has lasted too long."""

    key_id: str
    created_at: datetime
    expires_at: datetime  # however much it is used
    valid_until: datetime  # later whenever it is used


def check_key(key: NewApiKey) -> NewApiKey:
    """The key, if its parts fit together; raises `InvalidJob`."""
    if key.role not in ROLES:
        raise InvalidJob(f"role={key.role!r} is not a role: use {', '.join(ROLES)}")
    if key.mode not in get_args(Mode):
        raise InvalidJob(f"mode={key.mode!r} is neither live nor test")
    if key.role == "superadmin" and key.tenant_id is not None:
        raise InvalidJob("a superadmin's key has no tenant: it sees all of them; admin is the role for one tenant")
    if key.role not in ("superadmin", "worker") and key.tenant_id is None:
        raise InvalidJob(
            f"which tenant is the {key.role}'s key for? Only superadmin and worker keys can do without one"
        )
    if key.role not in _NARROWED and (key.queues or key.kinds):
        raise InvalidJob(f"queues and kinds narrow the keys of {', '.join(_NARROWED)}, not a {key.role}'s")
    return key


def check_no_wider(maker: ApiKey, key: NewApiKey) -> None:
    """Raises `NotAllowed` if the key could do what its maker cannot."""
    if key.role not in _MAKES.get(maker.role, ()):
        raise NotAllowed(f"a key of role {maker.role} cannot make one of role {key.role}")
    if maker.tenant_id is not None and key.tenant_id != maker.tenant_id:
        raise NotAllowed("a key of one tenant makes keys of that tenant only")
    for what, its, new in (("queues", maker.queues, key.queues), ("kinds", maker.kinds, key.kinds)):
        if its and not (new and set(new) <= set(its)):
            raise NotAllowed(f"this key is for the {what} {', '.join(its)} and makes keys for these only")
    if maker.expires_at is not None and (key.expires_at is None or key.expires_at > maker.expires_at):
        raise NotAllowed(
            f"this key expires at {maker.expires_at.isoformat()}, and makes no key that lasts longer: give expires_at"
        )


def is_no_wider(maker: ApiKey, key: ApiKey) -> bool:
    """Whether a key can do nothing that this one cannot: one for some queues or kinds handles no other keys."""
    return all(
        not its or (bool(of) and set(of) <= set(its))
        for its, of in ((maker.queues, key.queues), (maker.kinds, key.kinds))
    )


def key_made(key: NewApiKey) -> str:
    """What the audit says of it."""
    words = [f"{key.id} ({key.name}): {key.role}"]
    words += _named("queues", key.queues) + _named("kinds", key.kinds)
    return ", ".join(words)


def _named(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what} {' '.join(names)}"] if names else []
