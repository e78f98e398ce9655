"""The keyword options of the public calls, each set defined once: `TypedDict`s for `**options: Unpack[…]`.

Type checkers and editors read names and types here; `options.py` and `triggers.py` check the values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypedDict
from uuid import UUID

from headway.define.keys import Key, KeyOf
from headway.model.duration import Duration
from headway.model.job import Delivery, Enqueued, Job, NewJob, OnConflict, OnEnd, OnFailure, Replaceable, Source
from headway.model.retention import Retention
from headway.model.retry import Backoff
from headway.model.status import Status
from headway.model.trigger import CatchUp, Overlap

Errors = type[Exception] | Sequence[type[Exception]]
BackoffOption = Backoff | Duration | tuple[Duration, Duration]
Predecessor = Enqueued | Job | NewJob | str | UUID


class HasId(Protocol):
    """A group, or what `app.group` gave."""

    @property
    def id(self) -> str: ...


class _JobOptions(TypedDict, total=False):
    """What a kind sets for all its jobs and `using()` for one."""

    queue: str
    max_attempts: int
    max_losses: int
    backoff: BackoffOption
    timeout: Duration | None
    priority: int
    delivery: Delivery
    concurrency: int | None
    rate: str | None
    burst: int | None
    on_canceled: OnEnd
    on_dead: OnEnd
    tags: str | Collection[str] | None
    unique_by: Collection[str] | str | None
    unique_scope: Sequence[Status] | set[Status] | frozenset[Status] | None
    unique_group: str | None
    unique_for: Duration | None
    on_conflict: OnConflict
    replace: Collection[Replaceable] | Replaceable | None
    debounce: Duration | None
    debounce_max: Duration | None


class MachineOptions(_JobOptions, total=False):
    """What `class Checkout(Machine, ...)` takes.

    A key is a text, a template of arguments ("{user_id}"), or a function of them.
    """

    train: KeyOf
    partition: KeyOf
    concurrency_key: KeyOf
    rate_key: KeyOf
    unique_key: KeyOf
    name: str
    aliases: str | Collection[str]
    retry_on: Errors
    discard_on: Errors
    schema: Mapping[str, Any]
    retention: Retention
    tenants: Collection[str | UUID] | None
    enqueuer_may: Mapping[str, Any]
    spill: bool


class KindOptions(MachineOptions, total=False):
    """What `@app.job(...)` takes: as a machine, and how many of its calls run together."""

    batch: int
    batch_wait: Duration


class FlowOptions(MachineOptions, total=False):
    """What `@app.flow(...)` takes: as a machine; timeout, attempts and backoff are those of its steps, too."""

    version: int
    since: int
    steps_at_once: int
    cancel_grace: Duration


class UsingOptions(_JobOptions, total=False):
    """What `kind.using(...)` takes: how one job differs from its kind. None takes an earlier value back."""

    train: Key
    partition: Key
    concurrency_key: Key
    rate_key: Key
    group: str | UUID | HasId | None
    after: Predecessor | Collection[Predecessor] | None
    on_failure: OnFailure
    tenant: str | UUID | None
    delay: Duration | None
    scheduled_for: datetime | None
    expires_at: datetime | None
    idempotency_key: str | None
    unique_key: str | None
    meta: Mapping[str, Any] | None
    correlation_id: str | None
    trace_id: str | None
    source: Source
    source_ref: str | None
    created_by: str | None
    conn: Any


class StepOptions(TypedDict, total=False):
    """What `@step(...)` takes: how one step differs from its machine."""

    queue: str
    partition: KeyOf
    timeout: Duration | None
    max_attempts: int
    backoff: BackoffOption
    retry_on: Errors
    discard_on: Errors


class _Enqueues(TypedDict, total=False):
    """What a schedule or an event trigger enqueues its jobs with."""

    payload: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    description: str | None
    label: str | None


class _Target(TypedDict, total=False):
    """Only for stored triggers: those declared in code name no template and are always enabled."""

    kind: str | None
    template: str | None
    enabled: bool


class _Timing(TypedDict, total=False):
    every: Duration | None
    tz: str | None
    catch_up: CatchUp | None
    catch_up_window: Duration | None
    overlap: Overlap | None
    jitter: Duration | None
    start: datetime | None
    end: datetime | None


class _Matching(TypedDict, total=False):
    signal: str | None
    to: str | None
    when: Mapping[str, Any] | None
    dedupe_window: Duration | None
    dedupe_key: str | None


class _Owned(TypedDict, total=False):
    tenant: str | UUID | None
    actor: str | None
    conn: Any


class DeclaredScheduleOptions(_Timing, _Enqueues, total=False):
    """What `@app.schedule(cron, ...)` takes. None is the default."""

    name: str | None
    tenant: str | UUID | None
    run_on_start: bool | None


class ScheduleOptions(_Timing, _Enqueues, _Target, _Owned, total=False):
    """What `app.create_schedule(name, cron, ...)` takes. None is the default."""


class ScheduleChanges(_Timing, _Enqueues, _Target, _Owned, total=False):
    """What `app.change_schedule(name, ...)` takes. None takes a value back."""

    new_name: str
    if_match: Collection[str] | None
    cron: str | None


class TriggerOptions(_Matching, _Enqueues, _Target, _Owned, total=False):
    """What `app.create_trigger(name, event, ...)` takes. None is the default."""


class TriggerChanges(_Matching, _Enqueues, _Target, _Owned, total=False):
    """What `app.change_trigger(name, ...)` takes. None takes a value back."""

    new_name: str
    if_match: Collection[str] | None
    event: str


class JobChanges(TypedDict, total=False):
    """What `app.change(job_id, ...)` takes. None takes a value back."""

    priority: int
    queue: str
    max_attempts: int
    max_losses: int
    timeout: Duration | None
    scheduled_for: datetime | None
    delay: Duration | None
    expires_at: datetime | None
    payload: Mapping[str, Any]
    meta: Mapping[str, Any] | None
    tags: str | Collection[str] | None


class RetryChanges(TypedDict, total=False):
    """What `app.retry(job_id, ...)` sets before the job runs again."""

    scheduled_for: datetime | None
    delay: Duration | None
    max_attempts: int
    payload: Mapping[str, Any]


class TemplateChanges(TypedDict, total=False):
    """What `app.change_template(name, ...)` takes. None takes a value back."""

    new_name: str
    kind: str
    payload: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    description: str | None


class ConnectorOptions(TypedDict, total=False):
    """What `app.create_connector(name, url, ...)` takes."""

    kind: str
    headers: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    events: Sequence[str] | None
    description: str | None
    enabled: bool
    tenant: str | UUID | None
    actor: str | None
    conn: Any


class ConnectorChanges(TypedDict, total=False):
    """What `app.change_connector(name, ...)` takes. None takes a value back."""

    new_name: str
    url: str
    headers: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    events: Sequence[str] | None
    description: str | None
    enabled: bool


class DefinitionChanges(TypedDict, total=False):
    """What `app.change_definition(kind, ...)` takes. None takes a value back."""

    description: str | None
    schema: Mapping[str, Any] | None
    timeout: Duration | None
    max_attempts: int
    queue: str
    enqueuer_may: Mapping[str, Any] | None
    tenants: Collection[str | UUID] | None
    active: bool


class LimitOptions(TypedDict, total=False):
    """What `app.limit(...)` sets. None takes a limit back; what is not given stays."""

    max_running: int | None
    rate: str | None
    burst: int | None
    max_pending: int | None
    max_bytes: int | None
    max_events: int | None
    max_schedules: int | None
    max_group: int | None
    max_fan_out: int | None
