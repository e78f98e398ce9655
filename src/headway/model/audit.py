"""What the audit says of a change; PostgreSQL writes the same words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from headway.clock import from_micros
from headway.model.connector import ConnectorChange
from headway.model.definition import DefinitionChange
from headway.model.job import AuditEntry, Change
from headway.model.limit import Limit
from headway.model.status import FINISHED
from headway.model.template import TemplateChange
from headway.model.trigger import TriggerChange
from headway.secrets import REDACTED, mask

_LONGEST = 2_000  # characters of a value that an entry keeps
_TIMES = frozenset(("start_at", "end_at", "old_secret_ends_at", "scheduled_for", "expires_at"))
_FLAGS = frozenset(("active", "enabled"))
_JSON = frozenset(
    (
        "payload",
        "options",
        "when",
        "headers",
        "events",
        "schema",
        "enqueuer_may",
        "tenants",
        "meta",
        "tags",
        "retention",
    )
)


class AccessNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something that nobody changed by it, and that the audit keeps all the same: a login, a refusal, a look."""

    action: str
    at: datetime
    actor: str | None = None
    actor_name: str | None = None
    tenant_id: str | None = None
    detail: str | None = None
    request_id: str | None = None
    address: str | None = None


def changes_of(text: str) -> dict[str, Any]:
    """The old and the new values of what changed, without what is secret by its name; of damaged ones none.

    >>> changes_of('{"queue":["a","b"],"payload":[{"token":"hunter2"},{"token":null}]}')
    {'queue': ['a', 'b'], 'payload': [{'token': '[redacted]'}, {'token': None}]}
    """
    try:
        return {name: mask(values) for name, values in msgspec.json.decode(text, type=dict[str, Any]).items()}
    except (msgspec.DecodeError, RecursionError):
        return {"": REDACTED}


def values_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The old and the new value of each field of `after` that differs, as JSON; None if none does. Both are as SQLite
    stores them. Of a long or damaged value only its length is kept.

    >>> values_changed({"queue": "a", "enabled": 1, "payload": "{}"}, {"enabled": 0, "payload": '{"n":1.50}'})
    '{"enabled":[true,false],"payload":[{},{"n":1.50}]}'
    """
    changed = {
        name: [_kept(name, before.get(name)), _kept(name, value)]
        for name, value in after.items()
        if value != before.get(name) and name != "next_fire_at"
    }
    return msgspec.json.encode(changed).decode() if changed else None


def _kept(name: str, value: Any) -> Any:
    """A stored value as the entry has it."""
    if value is None:
        return None
    if name in _TIMES:
        return from_micros(value)
    if name in _FLAGS:
        return bool(value)
    text = value if name in _JSON else msgspec.json.encode(value).decode()
    return f"{len(text)} characters" if len(text) > _LONGEST or not _is_json(text) else msgspec.Raw(text.encode())


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def show_changes(changes: dict[str, Any] | None) -> str:
    """The old and the new values, for people.

    >>> show_changes({"queue": [None, "mail"], "priority": [100, 5]})
    'queue: null → "mail", priority: 100 → 5'
    """

    def shown(value: Any) -> str:
        return msgspec.json.encode(value).decode()

    return ", ".join(
        f"{name}: {shown(value[0])} → {shown(value[1])}" if isinstance(value, list) and len(value) == 2 else name
        for name, value in (changes or {}).items()
    )


def _shown(action: str, detail: str | None) -> str | None:
    """The detail without what a changed payload calls secret.

    >>> _shown("change", '{"payload":{"to":"ann","password":"hunter2"}}')
    '{"payload":{"to":"ann","password":"[redacted]"}}'
    """
    return _with(detail, mask) if action == "change" and detail is not None else detail


def _with(detail: str, shown: Callable[[Any], Any]) -> str:
    """The detail of a changed job, which is JSON, as it is shown."""
    try:
        change = msgspec.json.decode(detail)
    except (msgspec.DecodeError, RecursionError):
        return detail
    found = shown(change)
    return detail if found is change else msgspec.json.encode(found).decode()


def without_payloads(entry: AuditEntry) -> AuditEntry:
    """The entry for those who may not see what a payload's kind calls secret, which the audit does not know."""

    def veiled(change: Any) -> Any:
        return {**change, "payload": REDACTED} if isinstance(change, dict) and "payload" in change else change

    changes, detail = entry.changes, entry.detail
    if changes is not None and "payload" in changes:
        changes = {**changes, "payload": [REDACTED, REDACTED]}
    if entry.action == "change" and detail is not None:
        detail = _with(detail, veiled)
    return msgspec.structs.replace(entry, changes=changes, detail=detail)


def read_entry(row: Sequence[Any], when: Callable[[Any], datetime]) -> AuditEntry:
    """An entry of its columns, as both stores select them; `when` makes a time of a stored one."""
    at, actor, action, detail, number, job_id, tenant_id, request_id, address, name, changes, seal, digest, erased = row
    return AuditEntry(
        when(at),
        actor,
        action,
        _shown(action, detail),
        number,
        job_id,
        tenant_id,
        request_id,
        address,
        actor_name=name,
        changes=None if changes is None else changes_of(changes),
        seal=seal,
        hash=digest,
        erased_at=None if erased is None else when(erased),
    )


def given(change: msgspec.Struct) -> dict[str, Any]:
    """The values that a change sets, by field.

    >>> given(TemplateChange(name="nightly"))
    {'name': 'nightly'}
    """
    values = {name: getattr(change, name) for name in change.__struct_fields__}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def fields_changed(name: str, change: DefinitionChange | TemplateChange | TriggerChange | ConnectorChange) -> str:
    """The name that it had, and what was changed.

    >>> fields_changed("mail", DefinitionChange(queue="slow", active=False, reset=("timeout_ms",)))
    'mail: queue, deactivated, reset timeout_ms'
    """
    words: list[str] = []
    for field, value in given(change).items():
        match field:
            case "of_revision":
                continue
            case "active":
                words.append("activated" if value else "deactivated")
            case "reset":
                words += [f"reset {each}" for each in value]
            case _:
                words.append(field)
    return f"{name}: {', '.join(words) or 'nothing'}"


def job_changed(change: Change) -> str:
    """The change as JSON, with the payload as it was given."""
    values = given(change)
    for name in ("payload", "meta"):
        if values.get(name) is not None:
            values[name] = msgspec.Raw(values[name].encode())
    return msgspec.json.encode(values).decode()


def limit_set(limit: Limit) -> str:
    """
    >>> limit_set(Limit(scope="kind", name="mail", max_running=3, rate_count=5, rate_period_ms=1000))
    'kind mail: max_running 3, rate 5 in 1000 ms'
    """
    words: list[str] = []
    if limit.max_running is not None:
        words.append(f"max_running {limit.max_running}")
    if limit.rate_count is not None:
        words.append(f"rate {limit.rate_count} in {limit.rate_period_ms} ms")
    if limit.rate_burst is not None:
        words.append(f"burst {limit.rate_burst}")
    words += [f"{name} {most}" for name, most in limit.quotas.items()]
    return f"{limit.scope} {limit.name}: {', '.join(words) or 'none'}"


def jobs_deleted(jobs: Sequence[tuple[str, str]], reason: str | None) -> str:
    """The kind and status of one job, or how many there were; and why.

    >>> jobs_deleted([("mail", "dead")], None)
    'mail, dead'
    >>> jobs_deleted([("mail", "dead"), ("report", "canceled")], "kind=mail")
    '2 jobs: kind=mail'
    """
    what = ", ".join(jobs[0]) if len(jobs) == 1 else f"{len(jobs)} jobs"
    return what if reason is None else f"{what}: {reason}"


def jobs_matching(count: int, matching: str, reason: str | None) -> str:
    """
    >>> jobs_matching(9000, "kind=mail status=dead", None), jobs_matching(2, "kind=mail", "sold out")
    ('9000 jobs: kind=mail status=dead', '2 jobs: kind=mail: sold out')
    """
    return ": ".join(filter(None, (f"{count} jobs", matching, reason)))


def retention_set(queue: str, retention: Mapping[str, int] | None) -> str:
    """
    >>> retention_set("mail", {"dead": 1000, "succeeded": 10}), retention_set("mail", None)
    ('mail: succeeded 10 ms, dead 1000 ms', 'mail: default')
    """
    words = [f"{status} {retention[status]} ms" for status in FINISHED if status in retention] if retention else []
    return f"{queue}: {', '.join(words) or 'default'}"


def tenant_renamed(old: str, new: str) -> str:
    """
    >>> tenant_renamed("acme", "acme-inc")
    'acme to acme-inc'
    """
    return f"{old} to {new}"


def tenant_zone_set(name: str, tz: str | None) -> str:
    """
    >>> tenant_zone_set("acme", "Europe/Berlin"), tenant_zone_set("acme", None)
    ('acme: tz Europe/Berlin', 'acme: tz none')
    """
    return f"{name}: tz {tz or 'none'}"


def tenant_deleted(name: str, tenant_id: str) -> str:
    """
    >>> tenant_deleted("acme", "0193")
    'acme (0193)'
    """
    return f"{name} ({tenant_id})"


def worker_dead(worker_id: str, name: str, jobs: int) -> str:
    """
    >>> worker_dead("0193", "host:7", 2)
    '0193 (host:7), 2 jobs'
    """
    return f"{worker_id} ({name}), {jobs} jobs"
