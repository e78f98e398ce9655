"""Both stores do the same random things to groups, beside everything else, and must look the same after each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headway.model.group import NewGroup
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.status import FINISHED, UNFINISHED
from tests.store.compared_stores import Side, moment
from tests.store.jobs.drawn_jobs import jobs
from tests.store.jobs.test_jobs_walk import Stores
from tests.tenant_ids import tenant_id

PLAIN = {
    "unique_key": None,
    "unique_for_ms": None,
    "idempotency_key": None,
    "on_conflict": "return",
    "expires_ms": None,
    "after": None,
}


class GroupSide(Side):
    def look(self) -> dict[str, Any]:
        seen = super().look()
        rows = self.db.sql("select id, stopped_at, callback_id from {groups}")
        seen["groups"] = {
            str(group_id): (stopped_at and moment(stopped_at), self.name(callback and str(callback)))
            for group_id, stopped_at, callback in rows
        }
        seen["progress"] = {group_id: self._progress(group_id) for group_id in seen["groups"]}
        return seen

    def _progress(self, group_id: str) -> dict[str, int]:
        return {status: count for status, count in self.db.group(group_id).counts.items() if count}


class Groups(Stores):
    """What `Stores` does, and groups."""

    @rule(
        members=st.lists(jobs, min_size=1, max_size=3),
        mode=st.sampled_from(["parallel", "sequential"]),
        on_failure=st.sampled_from(["stop", "continue", "skip"]),
        callback=st.booleans(),
    )
    def enqueue_group(self, members: list[dict[str, Any]], mode: str, on_failure: str, callback: bool) -> None:
        """As the application builds it."""
        group_id, tenant = new_id(), members[0]["tenant"]
        policy = "stop" if on_failure == "stop" else "continue"
        new: list[NewJob] = []
        for options in members:
            values = {**options, **PLAIN, "tenant": tenant, "on_failure": policy, "group_id": group_id}
            del values["expires_ms"]
            values["after"] = (new[-1].id,) if new and mode == "sequential" else ()
            values["concurrency"] = None if values["concurrency_key"] is None else 1
            new.append(NewJob(id=new_id(), tenant_id=tenant_id(tenant), **values))
        last = None
        if callback:
            last = new_id()
            after = tuple(job.id for job in new)
            policy = "continue" if on_failure == "continue" else "stop"
            end = {"id": last, "kind": "x", "queue": "b", "tenant": tenant, "tenant_id": tenant_id(tenant)}
            new.append(NewJob(**end, after=after, on_failure=policy))
        group = NewGroup(
            id=group_id,
            tenant=tenant,
            tenant_id=tenant_id(tenant),
            mode=mode,
            on_failure=on_failure,
            callback_id=last,
        )

        def verb(side: Side, ops: Any) -> Any:
            return [(side.name(e.id), e.status, e.created) for e in side.db.run(ops.enqueue(new, group))]

        self.both(verb)

    @precondition(lambda self: self.seen.get("groups"))
    @rule(data=st.data(), verb=st.sampled_from(["cancel", "retry", "retry", "add"]))
    def operate_group(self, data: st.DataObject, verb: str) -> None:
        group_id = data.draw(st.sampled_from(sorted(self.seen["groups"])), label="group")
        late = NewJob(id=new_id(), kind="y", queue="a", group_id=group_id)

        def verbs(side: Side, ops: Any) -> Any:
            match verb:
                case "cancel":
                    answer = side.db.run(ops.cancel_group(group_id, tenant_id=None, reason=None, actor="jon"))
                    return {
                        side.name(job_id): status for job_id, status in answer.items() if status not in FINISHED[:3]
                    }
                case "retry":
                    answer = side.db.run(ops.retry_group(group_id, tenant_id=None, actor="kim"))
                    side.look()
                    return sorted(side.name(job_id) for job_id in answer)
                case _:
                    return [(side.name(e.id), e.status) for e in side.db.run(ops.enqueue([late]))]

        self.both(verbs)

    @rule()
    def promote(self) -> None:
        """What it says of a group that an expired member stops depends on when that is seen."""
        self.both(lambda side, ops: side.db.run(ops.promote(limit=1_000)).expired)

    def check(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        super().check(before, now)
        waits = {child for _, child in now["edges"]}
        for name, job in now["jobs"].items():
            # nobody waits for nothing
            assert not job["pending"] or name in waits, job
            assert job["status"] in UNFINISHED or not job["pending"], job


@pytest.fixture
def machine(both_stores, clock, make_db):
    postgres, sqlite = (GroupSide(make_db(store, clock)) for store in both_stores)
    return lambda: Groups(postgres, sqlite, clock)


def test_both_stores_treat_groups_the_same(machine, random_walk):
    random_walk(machine, examples=4, full=200)
