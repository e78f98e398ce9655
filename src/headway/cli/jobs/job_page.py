"""One job on a page, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.cli.jobs.job_summary import awaits, limiter
from headway.cli.program.output import COLORS, Cell, Column, ago, at, first_line, many, readable, status, table
from headway.cli.program.page_parts import block, heading, pretty, title, values
from headway.model.duration import show_ms
from headway.model.journal import FLOW
from headway.model.rate import show_rate
from headway.model.spill import is_result_name
from headway.secrets import mask
from headway.shell import command

if TYPE_CHECKING:
    from headway.model.artifact import Artifact
    from headway.model.job import Attempt, AuditEntry, Job, Waiter
    from headway.model.status import Status

_LOG_LINES = 20
_AWAITED = 5


def show_job(
    job: Job,
    attempts: Sequence[Attempt],
    audit: Sequence[AuditEntry],
    *,
    ahead: int | None,
    awaited: Sequence[tuple[str, Status | None]],
    waiters: Sequence[Waiter],
    made_by: str | None,
    template: str | None,
    payload: Artifact | None,
) -> None:
    """Values, payload, result or error, executions, audit trail, and the end of the log.

    `ahead`: how many cars are before it, if it is held in a train. `awaited`: the jobs it still waits for. `waiters`:
    the first jobs that wait for it. `made_by`: the schedule or trigger that enqueued it. `template`: the template
    it was made from. `payload`: the artifact that has its payload, if that is too large for its row.
    """
    title(job.kind, status(job.status), job.id)
    values([*_values(job), *_origin(job, made_by, template), *_order(job, ahead, awaited), *_waiters(waiters)])
    block("payload", pretty(job.payload) if payload is None else _in_file(payload))
    if job.meta:
        block("meta", pretty(job.meta))
    if job.result is not None:
        block("result", result_file(job, attempts) or pretty(mask(job.result)))
    if job.error:
        block("error", job.error, COLORS["failed"])
    if attempts:
        heading(f"attempts ({len(attempts)})")
        _attempts(attempts)
    if audit:
        heading("audit")
        table(
            (Column("WHEN"), Column("WHO", shrink=True), Column("DID"), Column("DETAIL", shrink=True)),
            [(at(entry.at), entry.actor or "–", entry.action, entry.detail or "") for entry in audit],
        )
    if job.log_tail:
        lines = readable(job.log_tail).splitlines()
        left_out = f", the last {_LOG_LINES} of {len(lines)} lines" if len(lines) > _LOG_LINES else ""
        block(f"log{left_out}", "\n".join(lines[-_LOG_LINES:]))


def result_file(job: Job, attempts: Sequence[Attempt]) -> str | None:
    """Where the result is, if it is too large for the job's row."""
    stored = (found for each in attempts if each.fence == job.fence for found in each.artifacts)
    for each in stored:
        if is_result_name(each.name) and job.result == {"$artifact": each.id}:
            return _in_file(each)
    return None


def _in_file(artifact: Artifact) -> str:
    return f"{artifact.size:,} bytes of JSON in an artifact: {command('artifacts get', artifact.id)}"


def _values(job: Job) -> list[tuple[str, str]]:
    """The lines worth reading; unset and default values are left out (`--json` has all)."""
    found: list[tuple[str, Any]] = [
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tenant", job.tenant if job.tenant != "default" else None),
        ("tags", " ".join(job.tags) or None),
        ("flow" if job.step == FLOW else "machine", _machine(job)),
        ("tries", _tries(job)),
        ("losses", f"{job.losses} of {job.max_losses}" if job.losses else None),
        ("created", at(job.created_at) + (f" by {job.created_by}" if job.created_by else "")),
        ("scheduled for", at(job.scheduled_for) if job.status in ("scheduled", "held") and job.scheduled_for else None),
        ("expires", at(job.expires_at) if job.expires_at else None),
        ("started", at(job.started_at) if job.started_at else None),
        ("finished", at(job.finished_at) if job.finished_at else None),
        ("running since", at(job.attempt_started_at) if job.status == "running" else None),
        ("worker", job.worker_id if job.status == "running" else None),
        ("asked to stop", at(job.cancel_requested_at) if job.cancel_requested_at else None),
        ("progress", f"{job.progress:.0%} {job.progress_note or ''}" if job.progress is not None else None),
        ("timeout", show_ms(job.timeout_ms) if job.timeout_ms else None),
        ("delivery", job.delivery if job.delivery != "at_least_once" else None),
        ("retry of", job.retry_of),
        ("spawned by", job.parent_id),
        ("forked from", job.forked_from),
        ("idempotency key", job.idempotency_key),
        ("unique key", f"{job.unique_key} (while {', '.join(job.unique_scope)})" if job.unique_key else None),
        ("unique group", job.unique_group),
        ("correlation", job.correlation_id),
        ("trace", job.trace),
    ]
    return [(name, str(value)) for name, value in found if value is not None]


def _origin(job: Job, made_by: str | None, template: str | None) -> list[tuple[str, str | None]]:
    """What enqueued it, and from which template."""
    source = f"{job.source} {job.source_ref or ''}".strip()
    return [
        ("made by", made_by),
        ("template", template),
        ("source", source if job.source != "manual" or job.source_ref else None),
    ]


def _machine(job: Job) -> str | None:
    if job.step is None:
        return None
    waits = f", waits for {awaits(job)}" if job.status == "waiting" else ""
    step = "" if job.step == FLOW else f", step {job.step}"
    return f"version {job.version}{step}{waits}"


def _tries(job: Job) -> str:
    if not job.fence:
        return "has not run yet"
    # a step may have a budget of its own
    whole = job.step is None or job.step == FLOW
    return f"{job.tries} of {job.max_attempts} failed" if whole else f"{job.tries} of this step failed"


def _order(job: Job, ahead: int | None, awaited: Sequence[tuple[str, Status | None]]) -> list[tuple[str, str]]:
    """Its order and limits."""
    found = [
        ("train", _train(job, ahead)),
        ("partition", job.partition),
        ("concurrency", _concurrency(job)),
        ("rate", _rate(job)),
        ("limited", limiter(job) if job.limited_by is not None else None),
        ("group", job.group_id),
        ("waits for", _awaited(awaited) if awaited else None),
    ]
    return [(name, value) for name, value in found if value is not None]


def _train(job: Job, ahead: int | None) -> str | None:
    if job.train is None:
        return None
    place = f", place {ahead + 1:,}" if ahead is not None else ""
    if job.status in ("queued", "running", "scheduled", "waiting"):
        place = ", the locomotive"
    ends = (("dead", job.on_dead), ("canceled", job.on_canceled))
    holds = "".join(f"; on {end}: hold" for end, policy in ends if policy == "hold")
    return f"{job.train}{place}{holds}"


def _concurrency(job: Job) -> str | None:
    if job.concurrency is None:
        return None
    return f"{job.concurrency:,} at once of " + (
        f"kind {job.kind}" if job.concurrency_key is None else f"key {job.concurrency_key}"
    )


def _rate(job: Job) -> str | None:
    if job.rate_count is None or job.rate_period_ms is None:
        return None
    burst = f", burst {job.rate_burst:,}" if job.rate_burst is not None else ""
    of = f"kind {job.kind}" if job.rate_key is None else f"key {job.rate_key}"
    return f"{show_rate(job.rate_count, job.rate_period_ms)}{burst} of {of}"


def _awaited(awaited: Sequence[tuple[str, Status | None]]) -> str:
    shown = ", ".join(f"{id_} ({now or 'gone'})" for id_, now in awaited[:_AWAITED])
    more = f" and {len(awaited) - _AWAITED:,} more" if len(awaited) > _AWAITED else ""
    return f"{many(len(awaited))}: {shown}{more}"


def _waiters(waiters: Sequence[Waiter]) -> list[tuple[str, str]]:
    """Who waits for it, a line for each way to wait."""
    words = {"after": "followed by", "children": "awaited by", "train": "in its train"}
    found = []
    for way, word in words.items():
        some = [(each.id, each.status) for each in waiters if each.waits == way]
        if some:
            found.append((word, _awaited(some)))
    return found


def _attempts(attempts: Sequence[Attempt]) -> None:
    # only executions of programs have them
    program = any(attempt.pid is not None or attempt.exit_code is not None for attempt in attempts)
    own = (Column("EXIT", right=True), Column("PID", right=True, wide=100)) if program else ()
    table(
        (
            Column("FENCE", right=True),
            Column("STATUS"),
            Column("STARTED"),
            Column("TOOK", right=True),
            *own,
            Column("WORKER", wide=150),
            Column("ERROR", shrink=True),
        ),
        [_attempt(attempt, program) for attempt in attempts],
    )


def _attempt(attempt: Attempt, program: bool) -> list[Cell]:
    own: list[Cell] = [_or_none(attempt.exit_code), _or_none(attempt.pid)] if program else []
    return [
        str(attempt.fence),
        status(attempt.status),
        at(attempt.started_at),
        took(attempt),
        *own,
        attempt.worker_id or "–",
        first_line(attempt.error),
    ]


def _or_none(number: int | None) -> str:
    return "–" if number is None else str(number)


def took(attempt: Attempt) -> str:
    """How long an execution took, or has taken so far."""
    if attempt.finished_at is None:
        return ago(attempt.started_at).removesuffix(" ago")
    return show_ms((attempt.finished_at - attempt.started_at).total_seconds() * 1_000)
