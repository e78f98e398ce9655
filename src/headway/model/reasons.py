"""The errors of jobs that others ended; PostgreSQL writes the same words."""

from __future__ import annotations

from headway.model.status import Status


def ended_by(job_id: str, status: Status | None) -> str:
    """Why a job was canceled: the job that it waited for ended so, or the machine that waited for it did."""
    return f"canceled because job {job_id} is {status or 'gone'}"


def superseded(key: str | None, holder: str) -> str:
    """Why a job ended that would have entered a scope where its unique key is taken."""
    return f'superseded: unique key "{key}" is taken by job {holder}'


def not_needed(machine: str) -> str:
    """Why a child is canceled whose machine has waited for enough of the others."""
    return f"canceled because job {machine} went on without it"
