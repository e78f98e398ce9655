"""Windows of unique keys: with `unique_for`, the first job has its key for that long, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from headway.clock import from_micros
from headway.model import refusals
from headway.model.job import Enqueued, NewJob
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.insert import present
from headway.store.sqlite.jobs.taken_keys import Key, by_idempotency_key, key_of

_SQL = statements("jobs/unique_windows")
_encode = msgspec.json.Encoder().encode


class WindowVerbs(Verbs):
    def window(self, job_id: str) -> Op[datetime | None]:
        def steps() -> Steps[datetime | None]:
            rows = yield Statement(_SQL["window"], (job_id, self._clock.now()))
            return from_micros(rows[0][0]) if rows else None

        return SqliteOp(steps, writes=False)

    def prune_windows(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["probe"], (self._clock.now(),))
            return None if found else 0

        def steps() -> Steps[int]:
            return len((yield Statement(_SQL["prune"], (self._clock.now(), limit))))

        return SqliteOp(steps, writes=True, probe=probe)


def meet_windows(jobs: Sequence[NewJob], now: int) -> Steps[dict[int, Enqueued]]:
    """Before the insert: the job whose window each of these meets, by their index in the call. Of several with
    a key whose window is over, the first is inserted, and the others meet it."""
    asked = {n: job for n, job in _firsts(jobs) if job.unique_for_ms is not None}
    known = {job_id for job_id, _ in (yield from present([job.id for job in asked.values()]))}
    asked = {n: job for n, job in asked.items() if job.id not in known}
    repeats = yield from by_idempotency_key(asked)
    keys = list({key_of(job): None for n, job in asked.items() if n not in repeats})
    rows = yield Statement(_SQL["open"], (_encode(keys).decode(), now))
    owners: dict[Key | None, Enqueued] = {
        keys[index]: Enqueued(job_id, status, False) for index, job_id, status in rows
    }
    given: dict[int, Enqueued] = {}
    for n, job in asked.items():
        if n not in repeats:
            owner = owners.setdefault(key_of(job), Enqueued(job.id, "queued", False))
            if owner.id != job.id:
                given[n] = owner
    return given


def answer_by_window(jobs: Sequence[NewJob], given: list[Enqueued], met: dict[int, Enqueued]) -> list[Enqueued]:
    """The answers; a job that met an earlier one of the same call gets the same answer. Raises `Duplicate`."""
    answers = {job.id: answer for job, answer in zip(jobs, given, strict=True)}
    for n, owner in met.items():
        first, job = answers.get(owner.id, owner), jobs[n]
        if job.on_conflict == "raise":
            raise refusals.unique_key_taken(str(job.unique_key), job.kind, first.id, first.status)
        given[n] = Enqueued(first.id, first.status, False)
    return given


def write_windows(jobs: Sequence[NewJob], given: Sequence[Enqueued], now: int) -> Batch:
    """Open the windows of those that were made."""
    return Batch(
        _SQL["write"],
        [
            (job.tenant_id, job.unique_group or job.kind, job.unique_key, job.id, now + job.unique_for_ms * 1_000)
            for n, job in _firsts(jobs)
            if given[n].created and job.unique_for_ms is not None
        ],
    )


def _firsts(jobs: Sequence[NewJob]) -> Iterator[tuple[int, NewJob]]:
    """The jobs with their indexes, without those whose idempotency key an earlier one has: they open no window."""
    seen: set[tuple[str | None, str, str]] = set()
    for n, job in enumerate(jobs):
        if job.idempotency_key is not None:
            key = (job.tenant_id, job.kind, job.idempotency_key)
            if key in seen:
                continue
            seen.add(key)
        yield n, job
