"""Prune: deletes what ended long ago, with its attempts, signals and edges."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headway.model.retention import kept_ms
from headway.model.stats import STAT_RETENTIONS
from headway.model.status import Status
from headway.store.ops import Batch, Op, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.artifacts import delete_artifacts

_SQL = statements("jobs/prune")


class PruneVerbs(Verbs):
    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            for kind, queue, before in (yield from _lines(status, older_than_ms, self._clock.now())):
                ((found,),) = yield Statement(_SQL["probe"], (status, before, kind, queue))
                if found:
                    return None
            return 0

        def steps() -> Steps[int]:
            pruned = 0
            for kind, queue, before in (yield from _lines(status, older_than_ms, self._clock.now())):
                rows = yield Statement(_SQL["prune"], (status, before, limit - pruned, kind, queue))
                yield from delete_belongings(rows, self._clock.now())
                pruned += len(rows)
                if pruned >= limit:
                    break
            return pruned

        return SqliteOp(steps, writes=True, probe=probe)

    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        def steps() -> Steps[dict[str, int]]:
            found = {}
            now = self._clock.now()
            for name, older_than_ms in kept_ms.items():
                before = now - older_than_ms * 1_000
                match name:
                    case "events" | "failed_events":
                        status = "handled" if name == "events" else "failed"
                        rows = yield Statement(_SQL["prunable_events"], (status, before))
                    case "fires":
                        rows = yield Statement(_SQL["prunable_fires"], (before,))
                    case "audit":
                        rows = yield Statement(_SQL["prunable_audit"], (before,))
                    case "errors":
                        rows = yield Statement(_SQL["prunable_errors"], (before,))
                    case "stats_minutes" | "stats_hours" | "stats_days":
                        rows = yield Statement(_SQL["prunable_stats"], (STAT_RETENTIONS[name], before))
                    case _:
                        found[name] = yield from _count_prunable(name, older_than_ms, now)
                        continue
                found[name] = int(rows[0][0])
            return found

        return SqliteOp(steps, writes=False)


def _lines(status: str, default_ms: int, now: int) -> Steps[list[tuple[str, str, int]]]:
    """The kinds and queues of jobs with this end, and before which time such jobs must have ended to be pruned. A probe
    of the index for each, however many jobs there are."""
    own: dict[tuple[str, str], dict[str, int]] = {}
    for scope, name, text in (yield Statement(_SQL["own_retentions"])):
        own[scope, name] = msgspec.json.decode(text, type=dict[str, int])
    found: list[tuple[str, str, int]] = []
    line = ("", "")
    while True:
        rows = (yield Statement(_SQL["next_queue"], (status, *line))) if found else []
        rows = rows or (yield Statement(_SQL["next_kind"], (status, line[0])))
        if not rows:
            return found
        line = (rows[0][0], rows[0][1])
        of_kind, of_queue = own.get(("kind", line[0]), {}), own.get(("queue", line[1]), {})
        kept = kept_ms(status, default_ms, kind=of_kind, queue=of_queue)
        found.append((*line, now - kept * 1_000))


def _count_prunable(status: str, default_ms: int, now: int) -> Steps[int]:
    count = 0
    for kind, queue, before in (yield from _lines(status, default_ms, now)):
        ((found,),) = yield Statement(_SQL["prunable_jobs"], (status, before, kind, queue))
        count += found
    return count


def delete_belongings(rows: Rows, now: int) -> Steps[None]:
    """Delete what belongs to deleted jobs, each (id, group_id, tags): attempts, signals, journals, artifacts, tags,
    their error, and the edges and groups that no other job needs."""
    if not rows:
        return
    yield Batch(_SQL["prune_attempts"], [(job_id,) for job_id, *_ in rows])
    if tagged := [(tags, job_id) for job_id, _, tags in rows if tags is not None]:
        yield Batch(_SQL["prune_tags"], tagged)
    ids = [job_id for job_id, *_ in rows]
    yield Statement(_SQL["prune_job_errors"], (json_list(ids),))
    groups = {group_id for _, group_id, _ in rows if group_id is not None}
    ((edges, signals, artifacts, journals),) = yield Statement(_SQL["any_ties"])
    if signals:
        yield Batch(_SQL["prune_signals"], [(job_id,) for job_id in ids])
    if journals:
        yield Batch(_SQL["prune_journal"], [(job_id,) for job_id in ids])
    if artifacts:
        yield from delete_artifacts(ids, now)
    if edges:
        yield Statement(_SQL["prune_children"], (json_list(ids),))
        yield Statement(_SQL["prune_parents"], (json_list(ids),))
    yield Statement(_SQL["prune_groups"], (json_list(sorted(groups)), json_list(ids)))
