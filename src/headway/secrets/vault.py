"""The vault: which secrets of the worker's environment a job may have, and what its texts must not show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any, NamedTuple

from headway.errors import InvalidPayload, SecretMissing
from headway.secrets import values
from headway.secrets.declared import Grant
from headway.secrets.references import name_fault, resolve
from headway.secrets.values import Known

_UNDECLARED = Grant()
_MANY = 1_000


class Owner(NamedTuple):
    """The tenant of a job, by its id and its name; only the default tenant has the name "default"."""

    id: str
    name: str


class Vault:
    """A worker's secrets, as its headway.toml declares them.

    A secret without a declaration is for the default tenant, and for kinds that code defines.
    """

    def __init__(self, declared: Mapping[str, Grant] | None = None) -> None:
        grants = dict(declared or {})
        self._exact = {name: grant for name, grant in grants.items() if not _is_pattern(name)}
        # of several matching patterns the longest decides: it is the most specific
        self._patterns = sorted(
            ((name, grant) for name, grant in grants.items() if _is_pattern(name)), key=lambda each: -len(each[0])
        )
        self._given: dict[str, set[str]] = {}  # the names of what a tenant's executions got, by the tenant's id
        self._views: dict[str, tuple[Any, int, int, Known]] = {}  # by the tenant's id, with what it was made from

    def keyring(self, kind: str, owner: Owner, *, by_code: bool) -> Keyring:
        """For one execution of a kind, defined by code or not."""
        return Keyring(self, kind, owner, by_code)

    def refusal(self, name: str, kind: str, owner: Owner, by_code: bool) -> str | None:
        """Why a job does not get this secret; None: it does."""
        grant = self._grant(name)
        fits = by_code if grant.kinds is None else any(fnmatchcase(kind, each) for each in grant.kinds)
        if fits and _owns(grant, owner):
            return None
        return (
            f"the secret {name} is not given to {kind} of tenant {owner.name} here: declare it in the worker's "
            f'headway.toml, [secrets.{name}] with kinds = ["{kind}"] and tenants = ["{owner.name}"]'
        )

    def host_refusal(self, name: str, scheme: str, host: str) -> str | None:
        """Why a connector does not send this secret to this host by this scheme; None: it does."""
        fitting = [each for each in self._grant(name).hosts if _names_host(each, host)]
        if not fitting:
            return (
                f"the secret {name} is not for the host {host} here: declare it in the worker's headway.toml, "
                f'[secrets.{name}] with hosts = ["{host}"]'
            )
        if scheme == "https" or _is_loopback(host) or any(each.startswith("http://") for each in fitting):
            return None
        return (
            f"the secret {name} is not sent to {host} in clear text: give an https:// URL, or allow it in the worker's "
            f'headway.toml, [secrets.{name}] with hosts = ["http://{host}"]'
        )

    def note(self, name: str, owner: Owner) -> None:
        """An execution of this tenant got this variable: from now on hide it in the tenant's texts."""
        self._given.setdefault(owner.id, set()).add(name)

    def known(self, owner: Owner) -> Known:
        """What is hidden in the texts of a tenant's jobs: the tenant's values and the engine's. Other tenants' values
        are not: whether a guess is hidden would tell whether it is right."""
        # read first: if another thread notes a value meanwhile, this view counts as stale
        seen, revision, given = values.environment(), values.revision(), len(self._given.get(owner.id, ()))
        found = self._views.get(owner.id)
        if found is None or found[1:3] != (revision, given) or found[0] != seen:
            if len(self._views) >= _MANY:
                self._views.clear()
            found = (dict(seen), revision, given, Known([*values.own_values(), *self._values_of(owner)]))
            self._views[owner.id] = found
        return found[3]

    def _values_of(self, owner: Owner) -> list[str]:
        whole = {name for name, grant in self._exact.items() if _owns(grant, owner)}
        whole |= self._given.get(owner.id, set())
        found = [value for name in whole if (value := os.environ.get(name))]
        return found + [value for name, value in values.guessed() if _owns(self._grant(name), owner)]

    def _grant(self, name: str) -> Grant:
        found = self._exact.get(name)
        if found is None:
            found = next((grant for pattern, grant in self._patterns if fnmatchcase(name, pattern)), _UNDECLARED)
        return found


class Keyring:
    """The secrets of one execution."""

    __slots__ = ("_by_code", "_kind", "_owner", "_vault", "given")

    def __init__(self, vault: Vault, kind: str, owner: Owner, by_code: bool) -> None:
        self._vault = vault
        self._kind = kind
        self._owner = owner
        self._by_code = by_code
        self.given: dict[str, str] = {}  # by name, what this execution got

    @property
    def known(self) -> Known:
        """What its texts must not show."""
        return self._vault.known(self._owner)

    def get(self, name: str) -> str:
        """The value of the variable; raises `SecretMissing`, and `InvalidPayload` for what is not a name.

        Headway's own variables are never given.
        """
        fault = name_fault(name)
        if fault is not None:
            raise InvalidPayload(f"the secret {fault}")
        refusal = self._vault.refusal(name, self._kind, self._owner, self._by_code)
        if refusal is not None:
            raise SecretMissing(refusal)
        return self.take(name)

    def get_for_host(self, name: str, scheme: str, host: str) -> str:
        """The same for what is sent to a host, which the operator's file has to name: a tenant chooses the URL."""
        value = self.get(name)
        refusal = self._vault.host_refusal(name, scheme, host)
        if refusal is not None:
            raise SecretMissing(refusal)
        return value

    def resolve_for_host(self, value: Any, scheme: str, host: str) -> Any:
        """The value with its references resolved, for what is sent to a host."""
        return resolve(value, lambda name: self.get_for_host(name, scheme, host))

    def take(self, name: str) -> str:
        """The same if the operator's file gives it to this kind; raises `SecretMissing`."""
        value = os.environ.get(name)
        if value is None:
            raise SecretMissing(
                f"the secret {name} is not set here: set the environment variable {name} for this worker and restart it"
            )
        self.given[name] = value
        self.hide(name)
        return value

    def hide(self, name: str) -> None:
        """It got this variable: hide it in its texts."""
        values.add_resolved(os.environ.get(name, ""))
        self._vault.note(name, self._owner)

    def resolve(self, value: Any) -> Any:
        """The value with its references resolved."""
        return resolve(value, self.get)


def _owns(grant: Grant, owner: Owner) -> bool:
    return any(each in ("*", owner.id, owner.name) for each in grant.tenants)


def _names_host(declared: str, host: str) -> bool:
    name = declared.rpartition("://")[2]
    return host == name or (name.startswith("*.") and host.endswith(name[1:]))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name
