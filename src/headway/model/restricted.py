"""Restricted options: an enqueuer that is not trusted sets them only where its kind's definition says so.

Code in the process is trusted, and so are the owner and the workers of a PostgreSQL database. Logins of applications
are not; `headway.restrict` on PostgreSQL is the same rule for them, with the same texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headway.errors import NotAllowed
from headway.model.definition import Definition
from headway.model.duration import LONGEST_MS
from headway.model.rate import COUNT_LIMIT, LONGEST_PERIOD_MS

RESTRICTED = ("queue", "timeout", "partition", "concurrency", "concurrency_key", "rate", "rate_key")
"""What `enqueuer_may` can name. `concurrency` and `rate` bring their keys, and `rate` its burst, along."""
_ANY = "true, or left out"
_BOUNDS = {
    "queue": 'a list of queues, like ["mail"], or true for any',
    "timeout": f"milliseconds, from 1 to {LONGEST_MS}, or true for any",
    "concurrency": "a whole number from 1 to 1000000, or true for any",
    "rate": f"[count, milliseconds], each from 1 to {COUNT_LIMIT} and {LONGEST_PERIOD_MS}, or true for any",
}
"""How a bound is stored; `define/enqueuer_may.py` makes it from what people write. The others can only be true."""
TENANTS_KEY = "tenant"
"""The key of a limit that an enqueuer changed without naming one: keys belong to a tenant, so nobody else shares it."""
_POLICY = ("partition", "concurrency", "concurrency_key", "rate_count", "rate_period_ms", "rate_burst", "rate_key")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}\Z")
OPTION_FIELDS = {
    "queue": ("queue",),
    "timeout": ("timeout_ms",),
    "partition": ("partition",),
    "concurrency": ("concurrency",),
    "concurrency_key": ("concurrency_key",),
    "rate": ("rate_count", "rate_period_ms"),
    "burst": ("rate_burst",),
    "rate_key": ("rate_key",),
}
"""The options that a definition bounds, as a caller gives them, and the fields of `NewJob` that each sets."""
FIELDS = ("queue", "timeout_ms", *_POLICY)
"""All of those fields."""


def restricted(kind: str, definition: Definition | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What these fields of a new job are when an untrusted enqueuer asks for some of them; raises `NotAllowed`.

    What is not asked for, or None, is as the definition says. A kind without a definition allows nothing.
    """
    rule = _Rule(kind, definition, asked)
    return {
        "queue": rule.queue(),
        "timeout_ms": rule.timeout_ms(),
        "partition": rule.key("partition"),
        **rule.concurrency(),
        **rule.rate(),
    }


def check_unbounded(kind: str, definition: Definition | None, option: str) -> None:
    """Raises `NotAllowed` unless enqueuers may set this option to anything: its value is not known yet."""
    bound = _Rule(kind, definition, {})._bound(option)
    if bound is not True:
        raise NotAllowed(
            f'kind "{kind}" lets its enqueuers set {option} within bounds: nothing was written; give a template or '
            "trigger a value of its own"
        )


def bounds_flaw(may: Mapping[str, Any]) -> str | None:
    """What is wrong with the bounds of a definition as they are stored. The same as `headway.bounds_flaw`."""
    for name, bound in may.items():
        if name not in RESTRICTED:
            return (
                f"enqueuer_may has '{name}', which is no restricted option: name some of {', '.join(RESTRICTED)}; "
                "enqueuers may always set the others"
            )
        if bound is not True and not _is_bound(name, bound):
            return f"enqueuer_may of {name} must be {_BOUNDS.get(name, _ANY)}"
    return None


def _is_bound(name: str, bound: Any) -> bool:
    match name, bound:
        case "queue", [_, *_]:
            return all(isinstance(queue, str) and _NAME.match(queue) for queue in bound)
        case "timeout", int():
            return bound is not False and 1 <= bound <= LONGEST_MS
        case "concurrency", int():
            return bound is not False and 1 <= bound <= 1_000_000
        case "rate", [int(count), int(period_ms)]:
            whole = not isinstance(count, bool) and not isinstance(period_ms, bool)
            return whole and 1 <= count <= COUNT_LIMIT and 1 <= period_ms <= LONGEST_PERIOD_MS
    return False


class _Rule:
    def __init__(self, kind: str, definition: Definition | None, asked: Mapping[str, Any]) -> None:
        self._kind = kind
        self._defined = definition is not None
        self._asked = {name: asked.get(name) for name in FIELDS}
        policy = {} if definition is None else definition.policy
        self._own: dict[str, Any] = {name: policy.get(name) for name in _POLICY}
        self._own["queue"] = "default" if definition is None else definition.queue
        self._own["timeout_ms"] = None if definition is None else definition.timeout_ms
        self._may: Mapping[str, Any] = {} if definition is None else definition.enqueuer_may
        self._made: list[str] = policy.get("made_keys", [])
        self._step_queues: list[str] = policy.get("step_queues", [])

    def queue(self) -> str:
        asked: str | None = self._asked["queue"]
        if asked is not None and asked in self._step_queues:
            return asked
        if not self._differs("queue"):
            return str(self._own["queue"])
        bound = self._bound("queue")
        if bound is not True and asked not in bound:
            self._refuse("queue", f"one of {', '.join(bound)}", asked)
        return str(asked)

    def timeout_ms(self) -> int | None:
        asked: int | None = self._asked["timeout_ms"]
        if asked is None or not self._differs("timeout_ms"):
            own: int | None = self._own["timeout_ms"]
            return own
        bound = self._bound("timeout")
        if bound is not True and asked > bound:
            self._refuse("timeout", f"at most {bound}ms", f"{asked}ms")
        return asked

    def key(self, option: str, limit: str | None = None) -> str | None:
        """A key, which is always the tenant's; `limit` is the option that brings it along."""
        if not self._differs(option):
            own: str | None = self._own[option]
            return own
        if option not in self._made and limit not in self._may:
            self._bound(option)
        asked: str | None = self._asked[option]
        return asked

    def concurrency(self) -> dict[str, Any]:
        asked: int | None = self._asked["concurrency"]
        key = self.key("concurrency_key", "concurrency")
        if asked is None or not self._differs("concurrency"):
            return {"concurrency": self._own["concurrency"], "concurrency_key": key}
        bound = self._bound("concurrency")
        if bound is not True and asked > bound:
            self._refuse("concurrency", f"at most {bound}", asked)
        return {"concurrency": asked, "concurrency_key": key or TENANTS_KEY}

    def rate(self) -> dict[str, Any]:
        key = self.key("rate_key", "rate")
        own = {name: self._own[name] for name in ("rate_count", "rate_period_ms", "rate_burst")}
        changed = self._differs("rate_count") or self._differs("rate_period_ms")
        if not changed and not self._differs("rate_burst"):
            return own | {"rate_key": key}
        bound = self._bound("rate")
        rate = own | {"rate_burst": None} if changed else own
        rate |= {name: asked for name in own if (asked := self._asked[name]) is not None}
        count, period_ms, burst = rate["rate_count"], rate["rate_period_ms"], rate["rate_burst"]
        if bound is not True and count is not None and period_ms is not None:
            most, in_ms = bound
            # a greater count in a longer time would be the same rate, but all at once
            if count * in_ms > most * period_ms or max(count, burst or 0) > most:
                with_burst = "" if burst is None else f" with a burst of {burst}"
                self._refuse("rate", f"at most {most} in {in_ms}ms", f"{count} in {period_ms}ms{with_burst}")
        return rate | {"rate_key": key or TENANTS_KEY}

    def _differs(self, field: str) -> bool:
        asked = self._asked[field]
        return asked is not None and asked != self._own[field]

    def _bound(self, option: str) -> Any:
        if option not in self._may:
            raise NotAllowed(_unmentioned(self._kind, option, defined=self._defined))
        return self._may[option]

    def _refuse(self, option: str, bound: str, asked: object) -> None:
        raise NotAllowed(
            f'kind "{self._kind}" lets its enqueuers set {option} to {bound}, not to {asked}: nothing was written'
        )


def _unmentioned(kind: str, option: str, *, defined: bool) -> str:
    """Why an option is refused that the definition does not let enqueuers set."""
    if not defined:
        return (
            f'kind "{kind}" has no definition that lets its enqueuers set {option}: nothing was written; '
            "a worker that has the kind writes one at its start"
        )
    return (
        f'kind "{kind}" does not let its enqueuers set {option}: nothing was written; leave it out, or allow it by '
        "enqueuer_may in the kind's definition"
    )
