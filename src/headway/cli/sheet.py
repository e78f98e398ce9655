"""One job on a page, for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.cli.output import COLORS, Column, ago, at, clean, console, first_line, status, table
from headway.model.duration import show_ms

if TYPE_CHECKING:
    from headway.model.job import Attempt, AuditEntry, Job

_LOG_LINES = 20


def show_job(job: Job, attempts: Sequence[Attempt], audit: Sequence[AuditEntry]) -> None:
    """Values, payload, result or error, executions, audit trail, and the end of the log."""
    from rich.text import Text

    out = console()
    out.print(Text.assemble((job.kind, "bold"), "  ", status(job.status), "  ", (job.id, "dim")))
    for name, value in _values(job):
        out.print(Text.assemble((f"  {name:<15}", "dim"), clean(value)))
    _block("payload", _json(job.payload))
    if job.meta:
        _block("meta", _json(job.meta))
    if job.result is not None:
        _block("result", _json(job.result))
    if job.error:
        _block("error", job.error, COLORS["failed"])
    if attempts:
        _heading(f"attempts ({len(attempts)})")
        _attempts(attempts)
    if audit:
        _heading("audit")
        table(
            (Column("WHEN"), Column("WHO", shrink=True), Column("DID"), Column("DETAIL", shrink=True)),
            [(at(entry.at), entry.actor or "–", entry.action, entry.detail or "") for entry in audit],
        )
    if job.log_tail:
        lines = job.log_tail.splitlines()
        left_out = f", the last {_LOG_LINES} of {len(lines)} lines" if len(lines) > _LOG_LINES else ""
        _block(f"log{left_out}", "\n".join(lines[-_LOG_LINES:]))


def _values(job: Job) -> list[tuple[str, str]]:
    """The lines worth reading: what is unset or as usual is left out (`--json` has all)."""
    values: list[tuple[str, Any]] = [
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tenant", job.tenant if job.tenant != "default" else None),
        ("tries", f"{job.tries} of {job.max_attempts} failed" if job.fence else "did not run yet"),
        ("losses", f"{job.losses} of {job.max_losses}" if job.losses else None),
        ("created", at(job.created_at) + (f" by {job.created_by}" if job.created_by else "")),
        ("scheduled for", at(job.scheduled_for) if job.status == "scheduled" else None),
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
        ("idempotency key", job.idempotency_key),
        ("unique key", f"{job.unique_key} (while {', '.join(job.unique_scope)})" if job.unique_key else None),
        ("correlation", job.correlation_id),
        ("trace", job.trace_id),
        ("source", f"{job.source} {job.source_ref or ''}" if job.source != "manual" or job.source_ref else None),
    ]
    return [(name, str(value).strip()) for name, value in values if value is not None]


def _attempts(attempts: Sequence[Attempt]) -> None:
    table(
        (
            Column("FENCE", right=True),
            Column("STATUS"),
            Column("STARTED"),
            Column("TOOK", right=True),
            Column("WORKER", wide=150),
            Column("ERROR", shrink=True),
        ),
        [
            (
                str(attempt.fence),
                status(attempt.status),
                at(attempt.started_at),
                _took(attempt),
                attempt.worker_id or "–",
                first_line(attempt.error),
            )
            for attempt in attempts
        ],
    )


def _took(attempt: Attempt) -> str:
    if attempt.finished_at is None:
        return ago(attempt.started_at).removesuffix(" ago")
    return show_ms((attempt.finished_at - attempt.started_at).total_seconds() * 1_000)


def _heading(text: str) -> None:
    console().print(f"\n{text}", style="bold")


def _block(title: str, text: str, style: str | None = None) -> None:
    _heading(title)
    console().print("\n".join(f"  {line}" for line in clean(text).splitlines()), style=style)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
