"""The two stores of a random walk: what each looks like, in words that are the same on both, and where they differ."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from headway.clock import EARLIEST, LATEST, from_micros
from headway.model.error_groups import ErrorFilter, by_row_key
from headway.model.stats import COUNTS

TABLES = (
    "jobs",
    "attempts",
    "workers",
    "queues",
    "audit",
    "holds",
    "edges",
    "groups",
    "limits",
    "buckets",
    "signals",
    "flow_journal",
)
STATS = ("stat_deltas", "stats", "error_deltas", "errors", "job_errors")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Side:
    """One of the stores, with names for the ids that it made itself: x' is the job that retries x."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.names: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def reset(self) -> None:
        self.names.clear()
        self.ids.clear()
        self.db.find()  # a file is made by its first op
        tables = ", ".join(self.db.table(name) for name in (*TABLES, *STATS))
        if self.db.dialect == "postgres":
            self.db.sql(f"truncate {tables}, {self.db.table('arrivals')} restart identity")
        else:
            for name in (*TABLES, *STATS):
                self.db.sql(f"delete from {name}")

    def name(self, job_id: str | None) -> str | None:
        return None if job_id is None else self.names.get(job_id, job_id)

    def id(self, name: str) -> str:
        return self.ids.get(name, name)

    def look(self) -> dict[str, Any]:
        """Every visible row, in words that both stores share, once everything that arrived was let go."""
        self.db.process_arrivals()
        rows = self.db.find()
        for job in sorted(rows, key=lambda job: job.id):
            if job.retry_of is not None and job.id not in self.names:
                name = f"{self.name(job.retry_of)}'"
                self.names[job.id], self.ids[name] = name, job.id
        ranks = {place: n for n, place in enumerate(sorted({j.position for j in rows if j.position is not None}))}
        return {
            "jobs": {self.name(job.id): self._job(job, ranks) for job in rows},
            "attempts": self._attempts(),
            "queues": {name: _queue(queue) for name, queue in self.db.queues().items() if _matters(queue)},
            "workers": {name: msgspec.structs.asdict(worker) for name, worker in self.db.workers().items()},
            "audit": self._audit(),
            "holds": self._holds(),
            "edges": self._edges(),
            "stats": self._stats(),
            "errors": self._errors(),
        }

    def _job(self, job: Any, ranks: dict[int, int]) -> dict[str, Any]:
        return {
            **msgspec.structs.asdict(job),
            "id": self.name(job.id),
            "retry_of": self.name(job.retry_of),
            "position": ranks.get(job.position),
            "error": self._error(job.error),
            # what was held in between need not say when it was queued before
            "queued_at": job.queued_at if job.train is None or job.status in ("queued", "running") else None,
            "unique_scope": job.unique_scope if job.unique_key else None,
            "limited_by": None,  # one too many that came back is put aside again: who claims what must be the same
        }

    def _errors(self) -> dict[tuple[str, str, str], tuple[Any, ...]]:
        """The groups of errors, by tenant, fingerprint and queue."""
        groups = by_row_key(self.db.run(self.db.ops.errors(ErrorFilter())))
        return {group.row_key: (group.count, group.dead, group.first_seen_at, group.last_seen_at) for group in groups}

    def _stats(self) -> dict[tuple[str, str], dict[str, int]]:
        """What was counted of each queue and kind."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        op = self.db.ops.stats("day", since=EARLIEST, until=LATEST, tenant_id=None)
        for row in self.db.run(op):
            counts = found.setdefault((row.queue, row.kind), {})
            for name in COUNTS:
                counts[name] = counts.get(name, 0) + getattr(row.numbers, name)
        return found

    def _attempts(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        rows = self.db.sql(
            "select job_id, fence, status, started_at, finished_at, worker_id, error, exit_code, stdout_tail,"
            " stderr_tail from {attempts}"
        )
        found = {}
        for job_id, fence, status, started, finished, worker, error, *rest in rows:
            key = (self.name(str(job_id)), fence)
            assert key not in found, f"two rows for attempt {key}"
            found[key] = (status, moment(started), moment(finished), str(worker), self._error(error), *rest)
        return found

    def _error(self, error: str | None) -> str | None:
        for word in ("superseded", "lost", "expired", "canceled because"):
            if error is not None and word in error:
                return word
        return error and UUID.sub(lambda found: self.name(found[0]), error)

    def _holds(self) -> dict[tuple[str, str], tuple[Any, ...]]:
        rows = self.db.sql("select tenant_id, train, since, job_id, actor from {holds}")
        return {
            (str(tenant), train): (moment(since), self.name(job_id and str(job_id)), actor)
            for tenant, train, since, job_id, actor in rows
        }

    def _edges(self) -> dict[tuple[str, str], str]:
        """What those that wait still wait for."""
        rows = self.db.sql(
            "select e.parent_id, e.child_id, e.on_failure from {edges} e join {jobs} j on j.id = e.child_id"
            " where e.state = 'pending' and j.status = 'held'"
        )
        return {(self.name(str(parent)), self.name(str(child))): policy for parent, child, policy in rows}

    def _audit(self) -> list[tuple[Any, ...]]:
        rows = self.db.sql(f"select job_id, at, actor, action from {self.db.table('audit')}")
        return sorted((str(self.name(str(job_id))), moment(at), str(actor), act) for job_id, at, actor, act in rows)


def moment(value: Any) -> datetime:
    return from_micros(value) if isinstance(value, int) else value


def _queue(queue: Any) -> dict[str, Any]:
    values = msgspec.structs.asdict(queue)
    values["counts"] = {status: n for status, n in queue.counts.items() if n}
    values["kinds"] = tuple(sorted(values["kinds"]))
    del values["limited"]
    return values


def _matters(queue: Any) -> bool:
    return bool(queue.paused or queue.workers or any(queue.counts.values()))


def difference(one: Any, two: Any) -> str:
    if not isinstance(one, dict):
        return f"  PostgreSQL {one}\n  SQLite     {two}"
    lines = []
    for key in sorted({*one, *two}, key=str):
        a, b = one.get(key), two.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += [
                f"  {key} ({a.get('status')}) {field}: PostgreSQL {a[field]!r}, SQLite {b.get(field)!r}"
                for field in a
                if a[field] != b.get(field)
            ]
        elif a != b:
            lines.append(f"  {key}: PostgreSQL {a}, SQLite {b}")
    return "\n".join(lines)
