"""Jobs: do the same to many. A dry run keeps the list of those it found; later calls act on these, and on no others."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from headway.api.access.tenants import check_role
from headway.api.call import Call
from headway.api.chapters.job_actions import JobChange, check_change
from headway.api.chapters.jobs import job_filters
from headway.api.routes import ADMINS, OPERATORS, Routes
from headway.api.wire.pages import changes_of
from headway.api.wire.problems import Fault, Refused
from headway.api.wire.views import JobView, job_view
from headway.errors import Duplicate, NotAllowed, NotFound
from headway.model.job import Job, Source
from headway.model.job_list import MOST
from headway.model.status import FINISHED, STATUSES, UNFINISHED, Status

routes = Routes("bulk actions")

_AT_ONCE = 1_000
_MOST_SELECTED = 1_000
_SAMPLE = 10
Action = Literal["cancel", "retry", "change", "delete"]
_FITTING: dict[Action, tuple[Status, ...]] = {
    "cancel": UNFINISHED,
    "change": tuple(each for each in UNFINISHED if each != "running"),
    "retry": FINISHED,
    "delete": FINISHED,
}


class JobFilterIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which jobs, as in the query of `GET /jobs`."""

    ids: Annotated[list[str], msgspec.Meta(max_length=_MOST_SELECTED)] = []  # those that somebody selected
    status: list[str] = []
    kind: list[str] = []
    definition_key: list[str] = []
    queue: list[str] = []
    source: list[Source] = []
    tag: list[str] = []
    train: str | list[str] | None = None
    group: str | list[str] | None = None
    correlation_id: str | None = None
    unique_key: str | None = None
    dedupe_key: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    error: str | None = None  # the fingerprint with which its last execution ended


class ActionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Begin with an action, a filter and `dry_run`; go on with the token alone. `expect` is how many jobs the list must
    have. Without a dry run, `expect` is needed at once."""

    action: Action | None = None
    filter: JobFilterIn | None = None
    dry_run: bool = False
    expect: Annotated[int, msgspec.Meta(ge=0)] | None = None
    token: str | None = None
    change: JobChange | None = None  # for the action change
    reason: str | None = None
    keep_place: bool = False  # for the action retry


class ActionDone(msgspec.Struct, kw_only=True):
    """What a call found or did. `done` is 0 for a dry run; `skipped` are those that do not match any more, or that the
    action cannot be done to."""

    token: str
    count: int
    done: int
    skipped: int
    remaining: int
    more: bool = False  # more than a list can have match: these are the oldest
    sample: list[JobView] = []  # type: ignore[valid-type]


@routes.post(
    "/jobs/actions",
    roles=OPERATORS,
    body=ActionIn,
    answers={200: ActionDone},
    problems=(404, 409, 422),
)
async def act_on_jobs(call: Call[ActionIn, None]) -> ActionDone:
    """Cancel, retry, change or delete many jobs: up to 1,000 in a call, of those that a dry run found."""
    asked = call.body
    if asked.token is not None:
        if asked.filter is not None or asked.dry_run:
            raise Refused(422, "the token says what to do, and to which jobs: leave the rest out")
        return await _go_on(call, asked.token, asked.expect, asked.action)
    if asked.action is None or asked.filter is None:
        raise Refused(422, "give action and filter, or the token of a dry run", faults=[Fault("missing", "/action")])
    if not asked.dry_run and asked.expect is None:
        raise Refused(
            422,
            "how many jobs is this about? Give expect, or dry_run to see them first",
            faults=[Fault("missing", "/expect")],
        )
    _check(call, asked)
    ids, sample, more = await _find(call, asked)
    if not asked.dry_run and asked.expect != len(ids):
        raise Refused(409, f"{len(ids):,} jobs match, not {asked.expect:,}: nothing was done", code="UnexpectedCount")
    token = await call.verbs.akeep_list(ids, key_id=call.key.id, action=msgspec.json.encode(asked).decode())
    if not asked.dry_run:
        return await _go_on(call, token)
    return ActionDone(
        token=token,
        count=len(ids),
        done=0,
        skipped=0,
        remaining=len(ids),
        more=more,
        sample=list(map(job_view, sample)),
    )


def _check(call: Call[Any, Any], asked: ActionIn) -> None:
    if asked.action == "delete":
        check_role(call.key, ADMINS)
    if (asked.action == "change") != (asked.change is not None):
        raise Refused(422, "the action change, and no other, has a change", faults=[Fault("not valid", "/change")])
    if asked.change is not None:
        changes_of(asked.change, {})
        if asked.change.payload is not msgspec.UNSET:
            raise Refused(422, "a payload is changed job by job", faults=[Fault("not valid", "/change/payload")])


def _filters(asked: ActionIn, call: Call[Any, Any]) -> dict[str, Any]:
    selected = None if asked.filter is None else asked.filter.ids
    return {**job_filters(asked.filter, call), "ids": selected or None}


async def _find(call: Call[Any, Any], asked: ActionIn) -> tuple[list[str], list[Job], bool]:
    """The ids of the jobs that match and can be acted on, the oldest first; some of them; whether there are more."""
    filters = _filters(asked, call)
    if not any(value for value in filters.values()):
        raise Refused(422, "the filter is empty: say which jobs", faults=[Fault("empty", "/filter")])
    # the database leaves out what the action cannot be done to: reading it here could take forever
    fitting = _FITTING[asked.action or "retry"]
    statuses = [each for each in filters["status"] or fitting if each in fitting or each not in STATUSES]
    if not statuses:
        return [], [], False
    filters["status"] = statuses
    ids: list[str] = []
    sample: list[Job] = []
    after: Job | None = None
    while True:
        page = await call.verbs.ajobs(limit=_AT_ONCE, after=after, order="oldest", raw=True, **filters)
        if not page:
            return ids, sample, False
        after = page[-1]
        sample += page[: _SAMPLE - len(sample)]
        ids += [job.id for job in page]
        if len(ids) > MOST:
            return ids[:MOST], sample, True


async def _go_on(
    call: Call[Any, Any], token: str, expect: int | None = None, action: Action | None = None
) -> ActionDone:
    part = await call.verbs.aread_list(token, key_id=call.key.id, limit=_AT_ONCE)
    if expect is not None and expect != part.total:
        raise Refused(
            409, f"the list has {part.total:,} jobs, not {expect:,}: nothing was done", code="UnexpectedCount"
        )
    asked = msgspec.json.decode(part.action, type=ActionIn)
    if action not in (None, asked.action):
        said = f"the list is for the action {asked.action}: nothing was done"
        raise Refused(422, said, faults=[Fault("differs", "/action")])
    _check(call, asked)  # the key may have lost its role
    done = await _act(call, asked, list(part.ids)) if part.ids else 0
    # if this answer is lost, the repeated call gets the same jobs, and none of them match any more
    end = part.position + len(part.ids)
    await call.verbs.aadvance_list(token, key_id=call.key.id, position=end)
    return ActionDone(
        token=token, count=part.total, done=done, skipped=len(part.ids) - done, remaining=part.total - end
    )


async def _act(call: Call[Any, Any], asked: ActionIn, ids: list[str]) -> int:
    """Act on those of these that still match; gives how many."""
    filters = {**_filters(asked, call), "ids": ids}
    match asked.action:
        case "cancel":
            return await call.verbs.acancel_jobs(reason=asked.reason, actor=call.actor, **filters)
        case "retry":
            return await call.verbs.aretry_jobs(keep_place=asked.keep_place, actor=call.actor, **filters)
        case "delete":
            return await call.verbs.adelete_jobs(reason=asked.reason, actor=call.actor, **filters)
    assert asked.change is not None
    changes = changes_of(asked.change, {})
    jobs = await call.verbs.ajobs(limit=_AT_ONCE, order="oldest", raw=True, **filters)
    for job in jobs:  # first: a refusal says that nothing was done
        await check_change(call, job, changes)
    done = 0
    for job in jobs:
        try:
            await call.verbs.achange(job.id, actor=call.actor, **changes)
            done += 1
        except (NotAllowed, NotFound, Duplicate):
            continue  # it started, ended or was deleted meanwhile, or its unique key is taken
    return done
