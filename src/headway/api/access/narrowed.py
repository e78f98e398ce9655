"""Keys for some queues or kinds: what of a tenant they see. Every handler asks here, so that each list, read and write
is narrowed by the same rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headway.api.wire.problems import Refused
from headway.errors import Duplicate, NotFound
from headway.model import refusals
from headway.model.event import Event
from headway.model.fleet import Queue, Worker
from headway.model.job import Counted, Job, NewJob
from headway.model.journal_row import JournalRow
from headway.model.machine import StepExecution
from headway.model.status import UNFINISHED

if TYPE_CHECKING:
    from headway.api.call import Call

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_narrowed(call: Call[Any, Any]) -> bool:
    """Whether the key is for some queues or kinds only."""
    return bool(call.key.queues or call.key.kinds)


def seen_names(asked: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...] | None:
    """The queues or kinds to look at: those that were asked for, as far as the key may see them. None: all."""
    if not allowed:
        return tuple(asked) or None
    both = tuple(name for name in asked if name in allowed) if asked else tuple(allowed)
    return both or ("-",)  # nothing has this name, so nothing matches


def may_see(call: Call[Any, Any], job: Job) -> bool:
    return call.may_touch(queue=job.queue, kind=job.kind)


def may_see_kind(call: Call[Any, Any], kind: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the key may see the jobs that this kind's definition, with these options over it, would make."""
    return call.may_touch(queue=queue_of(call, kind, options or {}), kind=kind)


def queue_of(call: Call[Any, Any], kind: str, options: Mapping[str, Any]) -> str:
    """The queue of such jobs; the definitions must have been learned."""
    definition = call.verbs.known_definition(kind)
    return options.get("queue") or ("default" if definition is None else definition.queue)


async def visible_job(call: Call[Any, Any]) -> Job:
    """The job of the path, if the key may see it."""
    job = await call.verbs.aget(call.params["id"], raw=True)
    if not may_see(call, job):
        raise NotFound(f"there is no job {job.id} (or it is another tenant's, or it was pruned)")
    return job


async def seen_ids(call: Call[Any, Any], ids: Iterable[str]) -> set[str]:
    """Those of these jobs that the key may see."""
    store = call.app.store
    wanted = sorted(set(ids))
    jobs = await store.arun(store.ops.get(wanted, tenant_id=call.verbs.tenant_id)) if wanted else []
    return {job.id for job in jobs if may_see(call, job)}


async def without_hidden_ids(call: Call[Any, Any], texts: Sequence[str]) -> list[str]:
    """Sentences for people, in which jobs that the key may not see are not named."""
    if not is_narrowed(call):
        return list(texts)
    store = call.app.store
    named = sorted({each for text in texts for each in _ID.findall(text)})
    jobs = await store.arun(store.ops.get(named, tenant_id=call.verbs.tenant_id)) if named else []
    hidden = {job.id for job in jobs if not may_see(call, job)}
    return [_ID.sub(lambda found: "…" if found[0] in hidden else found[0], text) for text in texts]


def refuse_hidden(call: Call[Any, Any], job: Job) -> None:
    """Raises `Refused`, without naming it, for a job that has a key of the request and that the caller may not see."""
    if not may_see(call, job):
        raise hidden_job()


def hidden_job() -> Refused:
    return Refused(
        409,
        "a unique or idempotency key of this request belongs to a job that this API key is not for",
        fix="choose another key, or use an API key that names the other job's queue and kind",
    )


async def shown_duplicate(call: Call[Any, Any], taken: Duplicate) -> Duplicate | Refused:
    """The conflict with a job, which is named only to those who may see it."""
    if not is_narrowed(call) or (taken.job_id and await seen_ids(call, [taken.job_id])):
        return taken
    return hidden_job()


async def check_others(call: Call[Any, Any], built: Sequence[NewJob]) -> None:
    """Raises where new jobs would replace jobs that the key is not for, or wait for or join what it does not see."""
    if not is_narrowed(call):
        return
    for new in built:
        if new.on_conflict.startswith("replace") and new.unique_key is not None:
            for each in await call.verbs.ajobs(unique_key=new.unique_key, status=UNFINISHED, raw=True):
                call.check_touch(queue=each.queue, kind=each.kind)
    awaited = [each for new in built for each in new.after]
    seen = await seen_ids(call, awaited)
    for job_id in awaited:
        if job_id not in seen:
            raise refusals.no_such_parent(job_id)
    for group_id in {new.group_id for new in built if new.group_id is not None}:
        if not await sees_group(call, group_id):
            raise refusals.no_such_group(group_id)


async def sees_group(call: Call[Any, Any], group_id: str) -> bool:
    """Whether the group has a job that the key may see."""
    if not is_narrowed(call):
        return True
    kinds, queues = call.key.kinds or None, call.key.queues or None
    return bool(await call.verbs.ajobs(group_id=group_id, kind=kinds, queue=queues, limit=1, raw=True))


async def seen_events(call: Call[Any, Any], events: Sequence[Event]) -> list[Event]:
    """A narrowed key sees the events that it emitted, and those that say how its jobs ended."""
    if not is_narrowed(call):
        return list(events)
    jobs = await seen_ids(call, (each.job_id for each in events if each.job_id is not None))
    own = str(call.actor)
    return [each for each in events if (each.created_by == own if each.job_id is None else each.job_id in jobs)]


async def seen_history(call: Call[Any, Any], history: Sequence[StepExecution]) -> list[StepExecution]:
    """A machine's history with the children that the key may see."""
    if not is_narrowed(call):
        return list(history)
    seen = await seen_ids(call, (child for each in history for child in each.children))
    return [
        msgspec.structs.replace(each, children=tuple(child for child in each.children if child in seen))
        for each in history
    ]


async def seen_journal(call: Call[Any, Any], rows: Sequence[JournalRow]) -> list[JournalRow]:
    """Rows of a flow's journal, without the jobs that the key may not see, and what came of them."""
    if not is_narrowed(call):
        return list(rows)
    seen = await seen_ids(call, (row.job_id for row in rows if row.job_id is not None))
    return [
        row
        if row.job_id is None or row.job_id in seen
        else msgspec.structs.replace(row, job_id=None, value=None, error=None)
        for row in rows
    ]


async def seen_queues(call: Call[Any, Any], most: int | None = None, name: str | None = None) -> list[Queue]:
    """The queues of the key, or the one of that name; for some kinds, with what these have in them."""
    wanted = None if name is None else [name]
    if call.key.queues:
        wanted = [each for each in call.key.queues if name in (None, each)]
    queues = await call.verbs.aqueues(name=wanted, most=most)
    if not call.key.kinds:
        return queues
    counted = await seen_counts(call)
    return [await _of_kinds(call, each, [one for one in counted if one.queue == each.name]) for each in queues]


async def seen_counts(call: Call[Any, Any]) -> list[Counted]:
    return [each for each in await call.verbs.acounts_by_kind() if call.may_touch(queue=each.queue, kind=each.kind)]


async def _of_kinds(call: Call[Any, Any], queue: Queue, counted: Sequence[Counted]) -> Queue:
    counts: dict[Any, int] = {}
    for each in counted:
        if each.status in UNFINISHED:
            counts[each.status] = counts.get(each.status, 0) + each.count
    oldest = None
    if counts.get("queued"):
        found = await call.verbs.ajobs(
            queue=queue.name, kind=call.key.kinds, status="queued", order="oldest", limit=1, raw=True
        )
        oldest = found[0].queued_at if found else None
    kinds = tuple(each for each in queue.kinds if each.partition("@")[0] in call.key.kinds)
    return msgspec.structs.replace(queue, counts=counts, oldest_queued_at=oldest, kinds=kinds, limited=0)


def seen_kinds(call: Call[Any, Any], workers: Iterable[Worker]) -> set[str]:
    """The kinds, machines' with their versions, that workers say they know: not those of other tenants' workers."""
    tenant_id = call.verbs.tenant_id
    known = {
        kind
        for worker in workers
        if tenant_id is None or worker.metadata.get("tenant") in (None, tenant_id)
        for kind in worker.kinds
    }
    return {kind for kind in known if not call.key.kinds or kind.partition("@")[0] in call.key.kinds}
