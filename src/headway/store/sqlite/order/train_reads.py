"""The reads of trains: which there are, their cars, and a car's place."""

from __future__ import annotations

from headway.clock import from_micros
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.train import Hold, Train
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.decode import to_job
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.order.departures import TrainKey

_SQL = statements("order/train_reads")
_JOBS = statements("jobs/reads")["jobs"]
_PLACES = 10_000


class TrainReadVerbs(Verbs):
    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        def steps() -> Steps[list[Train]]:
            rows = [(tenant_id,)] if tenant_id is not None else (yield Statement(_SQL["tenants"]))
            tenants: list[str] = [found for (found,) in rows]
            keys: list[TrainKey] = []
            for tenant in tenants:
                if train is not None:
                    keys.append((tenant, train))
                    continue
                rows = yield Statement(_SQL["names"], (tenant, after or "", limit, blocked))
                keys += [(tenant, name) for (name,) in rows]
            keys.sort(key=lambda key: (key[1], key[0]))
            if train is None and len(keys) > limit:
                keys = [key for key in keys if key[1] <= keys[limit - 1][1]]
            rows = yield Statement(_SQL["trains"], (json_list(keys), blocked))
            found = [_train(row) for row in rows]
            return sorted(found, key=lambda each: (each.train, each.tenant_id))

        return SqliteOp(steps, writes=False)

    def cars(self, train: str, *, tenant_id: str | None, limit: int) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            rows = yield Statement(_SQL["cars"], (tenant_id or DEFAULT_TENANT_ID, train, limit))
            order = {job_id: n for n, (job_id,) in enumerate(rows)}
            jobs = yield Statement(_JOBS, (json_list(list(order)), None))
            return sorted((to_job(row) for row in jobs), key=lambda job: order[job.id])

        return SqliteOp(steps, writes=False)

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        def steps() -> Steps[tuple[int, str | None]]:
            rows = yield Statement(_SQL["place"], (job_id,))
            if not rows:
                return (0, None)
            ahead, locomotive = rows[0]
            return (min(_PLACES, ahead + (locomotive is not None)), locomotive)

        return SqliteOp(steps, writes=False)


def _train(row: Row) -> Train:
    name, tenant_id, tenant, length, head_id, head_kind, head_status, head_since, head_pending, since, *hold = row
    return Train(
        train=name,
        tenant_id=tenant_id,
        tenant=tenant,
        length=length,
        head_id=head_id,
        head_kind=head_kind,
        head_status=head_status,
        head_since=None if head_since is None else from_micros(head_since),
        head_pending=bool(head_pending),
        hold=None if since is None else Hold(from_micros(since), *hold),
    )
