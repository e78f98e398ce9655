"""Two releases of one application side by side, as in every rolling deploy: no data is lost, no job is killed."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic
import pytest

from headway import Await, Context, Done, Machine, Next, step
from headway.define import Registry
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness


def other_release(harness: WorkerHarness) -> WorkerHarness:
    """The same database, seen by other code."""
    other = WorkerHarness(harness.store)
    assert isinstance(other.registry, Registry)
    return other


def checkout(harness: WorkerHarness, state: Any) -> type[Machine]:
    class Checkout(Machine, name="checkout"):
        State = state

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("paid", then=self.count)

        @step
        async def count(self, ctx: Context) -> Outcomes:
            ctx.state.order += 1
            return Next(self.wait)

        @step
        async def wait(self, ctx: Context) -> Outcomes:
            return Await("end", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.state)

    return harness.machine(Checkout)


class Line(msgspec.Struct):
    sku: str


class NewLine(msgspec.Struct):
    sku: str
    gift: bool = False


class State(msgspec.Struct):
    order: int
    lines: list[Line] = []


class NewState(msgspec.Struct):
    order: int
    lines: list[NewLine] = []
    coupon: str | None = None


def test_an_old_worker_keeps_the_fields_of_a_newer_state(harness: WorkerHarness) -> None:
    new = other_release(harness)
    checkout(harness, State)
    newer = checkout(new, NewState)
    (job_id,) = harness.enqueue(newer.build(order=7, lines=[NewLine("a", gift=True)], coupon="x"))
    new.drain()
    harness.signal(job_id, "paid")
    harness.drain()
    whole = {"order": 8, "lines": [{"sku": "a", "gift": True}], "coupon": "x"}
    assert harness.get(job_id).state == whole
    harness.signal(job_id, "end")
    new.drain()
    assert harness.get(job_id).result == whole


def test_an_old_worker_that_runs_the_first_step_keeps_them_too(harness: WorkerHarness) -> None:
    new = other_release(harness)
    checkout(harness, State)
    (job_id,) = harness.enqueue(checkout(new, NewState).build(order=7, coupon="x"))
    harness.drain()
    assert harness.get(job_id).state == {"order": 7, "lines": [], "coupon": "x"}


class StrictLine(msgspec.Struct, forbid_unknown_fields=True):
    sku: str


class StrictModel(pydantic.BaseModel, extra="forbid"):
    sku: str


class NewModel(pydantic.BaseModel):
    sku: str
    gift: bool


def takes_user(user_id: int) -> int:
    return user_id


def takes_locale(user_id: int, locale: str) -> str:
    return f"{user_id} {locale}"


def takes_line(line: Line) -> str:
    return line.sku


def takes_strict_line(line: StrictLine) -> str:
    return line.sku


def takes_new_line(line: NewLine) -> list[Any]:
    return [line.sku, line.gift]


def takes_strict_model(line: StrictModel) -> str:
    return line.sku


def takes_new_model(line: NewModel) -> list[Any]:
    return [line.sku, line.gift]


@pytest.mark.parametrize(
    ("here", "there", "arguments", "named", "result"),
    [
        (takes_user, takes_locale, (7, "de"), "locale", "7 de"),
        (takes_locale, takes_user, (7,), "locale", 7),
        (takes_strict_line, takes_new_line, (NewLine("a", gift=True),), "gift", ["a", True]),
        (takes_strict_model, takes_new_model, (NewModel(sku="a", gift=True),), "gift", ["a", True]),
        (takes_new_model, takes_strict_model, (StrictModel(sku="a"),), "gift", "a"),
    ],
)
def test_a_job_of_another_release_is_given_back_to_a_worker_that_knows_it(
    harness: WorkerHarness, lines: Any, here: Any, there: Any, arguments: Any, named: str, result: Any
) -> None:
    harness.job(here, name="job", max_attempts=1)
    other = other_release(harness)
    ids = harness.enqueue(*(other.job(there, name="job", max_attempts=1).build(*arguments) for _ in range(3)))
    assert harness.drain() == Summary()
    for job_id in ids:
        job = harness.get(job_id)
        assert (job.status, job.tries, job.losses, harness.attempts(job_id)) == ("scheduled", 0, 0, [])
        harness.make_due(job_id)
    (warning,) = lines("another release")
    assert named in warning.getMessage()
    assert warning.levelname == "WARNING"
    assert other.drain() == Summary(succeeded=3)
    assert [harness.get(job_id).result for job_id in ids] == [result] * 3


def test_unknown_fields_inside_an_argument_are_no_reason_to_wait(harness: WorkerHarness) -> None:
    harness.job(takes_line, name="job")
    (job_id,) = harness.enqueue(other_release(harness).job(takes_new_line, name="job").build(NewLine("a", gift=True)))
    harness.drain()
    assert harness.get(job_id).result == "a"


def test_an_at_most_once_job_of_another_release_has_not_been_executed(harness: WorkerHarness) -> None:
    harness.job(takes_user, name="job", delivery="at_most_once")
    other = other_release(harness)
    (job_id,) = harness.enqueue(other.job(takes_locale, name="job", delivery="at_most_once").build(7, "de"))
    harness.drain()
    harness.make_due(job_id)
    other.drain()
    assert harness.get(job_id).result == "7 de"


def test_a_schema_that_allows_no_more_properties_waits_for_a_newer_worker(harness: WorkerHarness) -> None:
    old = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    new = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "additionalProperties": False}

    def job(**fields: Any) -> Any:
        return fields

    harness.job(job, schema=old)
    other = other_release(harness)
    newer = other.job(job, schema=new)
    waits, wrong = harness.enqueue(
        newer.build(a=1, b=2), msgspec.structs.replace(newer.build(a=1), payload='{"a":"x"}')
    )
    assert harness.drain() == Summary(dead=1)
    assert (harness.get(waits).status, harness.get(wrong).status) == ("scheduled", "dead")


def test_only_jobs_that_are_not_given_back_unread_count_as_started(harness: WorkerHarness) -> None:
    told: list[tuple[str, str | None]] = []
    for name in ("job.started", "job.settled"):
        harness.hooks.on(name, lambda event: told.append((event.name, event.job_id)))
    other = other_release(harness)
    harness.job(takes_user, name="mismatched")
    known = harness.job(takes_user, name="known")
    broken = msgspec.structs.replace(known.build(7), payload='{"user_id":"x"}')
    fine, wrong, *_ = harness.enqueue(
        known.build(7),
        broken,
        other.job(takes_locale, name="mismatched").build(7, "de"),
        other.job(takes_user, name="unknown").build(7),
    )
    assert harness.drain() == Summary(succeeded=1, dead=1)
    assert sorted(told) == sorted((name, job_id) for name in ("job.started", "job.settled") for job_id in (fine, wrong))


def test_a_state_that_forbids_unknown_fields_waits_for_a_newer_worker(harness: WorkerHarness) -> None:
    new = other_release(harness)
    checkout(harness, msgspec.defstruct("Strict", [("order", int)], forbid_unknown_fields=True))
    (job_id,) = harness.enqueue(checkout(new, NewState).build(order=7, coupon="x"))
    assert harness.drain() == Summary()
    assert harness.get(job_id).status == "scheduled"
    harness.make_due(job_id)
    new.drain()
    assert harness.get(job_id).status == "waiting"


def test_what_old_code_gives_back_comes_again_soon(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """For new code may be idle beside it; but of a large backlog, only some jobs do."""
    monkeypatch.setattr("headway.worker.returned_claims.SOON_MS", 20)
    ids = harness.enqueue(*(NewJob(id=new_id(), kind="of_tomorrow") for _ in range(150)))

    def claimed(times: int) -> int:
        return sum(job.fence >= times for job in harness.store.run(harness.store.ops.get(ids, tenant_id=None)))

    async def story() -> None:
        await harness.until(lambda: claimed(1) == 150 and claimed(3) > 0)

    harness.while_working(harness.worker(settings={"promote_every_ms": 20}), story)
    assert 0 < claimed(2) <= 100
    assert {harness.get(job_id).status for job_id in ids} <= {"scheduled", "queued"}
