"""What requests of workers have in common: ids, fences, and what is said to one that lost its claim."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

import msgspec

from headway.api.call import Call
from headway.api.wire.problems import Refused
from headway.define import checks
from headway.errors import HeadwayError, LeaseLost, NotFound
from headway.model.heartbeat_claims import Forgotten
from headway.model.ids import is_id
from headway.model.job import Claim
from headway.model.retry import released

_MOST = 1_000
_VERSION = re.compile(r"[1-9][0-9]{0,8}\Z")
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Key(msgspec.Struct):
    """A claim: the job and the number of its execution."""

    id: str
    fence: int


class Fenced(Protocol):
    fence: int | None
    attempt_no: int | None


class Named(Fenced, Protocol):
    id: str


def fence_of(said: Fenced) -> int:
    """The fence, under either of its names; raises `Refused`."""
    fence = said.attempt_no if said.fence is None else said.fence
    if fence is None or said.attempt_no not in (None, fence):
        raise Refused(422, "which execution? Give fence (or attempt_no), as the claim has it")
    if not 0 < fence < 2**31:
        raise Refused(422, f"fence={fence} is no number of an execution")
    return fence


def valid_worker_id(text: str) -> str:
    if not is_id(text):
        raise Refused(422, f"worker_id={text[:80]!r} is not a UUID: make a new one at each start of a worker")
    return str(UUID(text))


def valid_id(text: str) -> str:
    if _CANONICAL.fullmatch(text):  # as claims give it: a UUID takes far longer to make
        return text
    if not is_id(text):
        raise Refused(422, f"{text[:80]!r} is not the id of a job")
    return str(UUID(text))


def job_id_of(call: Call[Any, Any]) -> str:
    text = call.params["id"]
    if not is_id(text):
        raise NotFound(f"there is no job {text[:80]}")
    return str(UUID(text))


def queues_of(call: Call[Any, Any], given: Sequence[str]) -> list[str]:
    """The queues to claim from: those that the worker names, or its key's."""
    queues = list(dict.fromkeys(given or call.key.queues or ("default",)))
    if len(queues) > 100:
        raise Refused(422, f"{len(queues):,} queues are too many for one claim: name up to 100")
    for queue in queues:
        checks.name(queue, "queue")
        if call.key.queues and queue not in call.key.queues:
            raise Refused(403, f"this key is not for queue {queue}", fix="use a key that names it")
    return queues


def kinds_of(given: Sequence[str]) -> list[str]:
    """The kinds that a worker says it knows, a machine's with its version: `order@2`. Everybody sees them."""
    kinds = list(dict.fromkeys(given))
    if len(kinds) > _MOST:
        raise Refused(422, f"{len(kinds):,} kinds are too many for one worker: name up to {_MOST:,}")
    for each in kinds:
        kind, at, version = each.partition("@")
        checks.name(kind, "kind")
        if at and not _VERSION.match(version):
            raise Refused(422, f"kind {each[:80]!r} has no version after its @")
    return kinds


def check_many(jobs: Sequence[Named], *, least: int) -> None:
    if not least <= len(jobs) <= _MOST:
        raise Refused(422, f"name {least} to {_MOST:,} jobs at once, not {len(jobs):,}")
    if len({valid_id(each.id) for each in jobs}) < len(jobs):
        raise Refused(422, "one job is named twice")


def keys_of(claims: Sequence[Claim]) -> list[tuple[str, int]]:
    return [(claim.id, claim.fence) for claim in claims]


async def give_back(call: Call[Any, Any], worker_id: str, forgotten: Sequence[Forgotten], reason: str) -> None:
    """Release what a worker does not name any more. It may have begun it: an at_most_once job is not run again under
    its id."""
    if forgotten:
        store = call.app.store
        await store.arun(store.ops.settle(worker_id, [released(each, reason) for each in forgotten]))
        (await call.server.workers.waiting()).wake_all()


async def refuse_lost(call: Call[Any, Any], claim: tuple[str, int]) -> HeadwayError:
    """What to raise for a claim that is not the worker's (any more): a job that its key does not see is not there."""
    store = call.app.store
    if not await store.arun(store.ops.get([claim[0]], tenant_id=call.verbs._visible_tenant)):
        return NotFound(f"there is no job {claim[0]}")
    return LeaseLost(
        f"this worker does not run job {claim[0]} under fence {claim[1]} (any more), and the job may run elsewhere: "
        "nothing was written; drop it"
    )
