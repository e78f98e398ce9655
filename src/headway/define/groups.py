"""Makes a group of jobs: its row, its members, and who waits for whom by its mode and callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.define import checks
from headway.errors import InvalidJob
from headway.model.group import GroupFailure, Mode, NewGroup
from headway.model.ids import new_id
from headway.model.job import NewJob, OnFailure


def grouped(
    jobs: Sequence[NewJob], *, mode: Mode, on_failure: GroupFailure, callback: NewJob | None
) -> tuple[NewGroup, list[NewJob]]:
    """The group, and the jobs to enqueue for it: the members in order, then the callback.

    Raises `InvalidJob` for what cannot be a group.
    """
    checks.one_of(Mode)(mode, "mode")
    checks.one_of(GroupFailure)(on_failure, "on_failure")
    everyone = [*jobs] if callback is None else [*jobs, callback]
    if not everyone:
        raise InvalidJob("a group needs at least one job: there is nothing to enqueue")
    _check(everyone)
    group = NewGroup(
        id=new_id(),
        tenant=everyone[0].tenant,
        tenant_id=everyone[0].tenant_id,
        mode=mode,
        on_failure=on_failure,
        callback_id=None if callback is None else callback.id,
    )
    members = [msgspec.structs.replace(job, group_id=group.id) for job in jobs]
    if mode == "sequential":
        goes_on: OnFailure = "stop" if on_failure == "stop" else "continue"
        before = [None, *members[:-1]]
        members = [
            job if last is None else _waiting(job, (last.id,), goes_on)
            for job, last in zip(members, before, strict=True)
        ]
    if callback is None:
        return group, members
    runs_anyway: OnFailure = "continue" if on_failure == "continue" else "stop"
    return group, [*members, _waiting(callback, tuple(job.id for job in members), runs_anyway)]


def _check(jobs: Sequence[NewJob]) -> None:
    first: Any = jobs[0]
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            raise InvalidJob(f"job {job.id} is in this group twice: build() a job for each")
        seen.add(job.id)
        if job.group_id is not None:
            raise InvalidJob(f"job {job.id} belongs to group {job.group_id} already: a job has one group")
        if (job.tenant_id or job.tenant) != (first.tenant_id or first.tenant):
            raise InvalidJob(f"a group has one tenant, and these have {first.tenant} and {job.tenant}: make two groups")


def _waiting(job: NewJob, ids: tuple[str, ...], on_failure: OnFailure) -> NewJob:
    """The job, waiting for these, too."""
    if not ids:
        return job
    if job.after and job.on_failure != on_failure:
        raise InvalidJob(
            f"job {job.id} of kind {job.kind} has an after of its own with on_failure={job.on_failure!r}, and its "
            f"group makes it wait for others with {on_failure!r}: a job has one on_failure, so give it the same"
        )
    return msgspec.structs.replace(job, after=(*job.after, *ids), on_failure=on_failure)
