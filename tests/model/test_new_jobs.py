"""Pure rules of jobs: plain new ones and those with extras, their first status, where a retry puts a finished one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headway.model.job import NewJob, Settlement, is_plain
from headway.model.machine import Checkpoint
from headway.model.retry import retried_to, runs_anew
from headway.model.status import covers, enters
from headway.model.train import first_statuses

ID = "0199a5c1-0000-7000-8000-000000000001"


def job(**values: Any) -> NewJob:
    return NewJob(**{"id": ID, "kind": "work", **values})


@pytest.mark.parametrize(
    "values",
    [
        {"train": "t"},
        {"partition": "p"},
        {"concurrency": 1},
        {"rate_count": 1},
        {"group_id": ID},
        {"after": (ID,)},
        {"on_canceled": "hold"},
        {"on_dead": "hold"},
        {"checkpoint": Checkpoint()},
    ],
    ids=lambda values: next(iter(values)),
)
def test_each_of_these_is_an_extra(values: dict[str, Any]) -> None:
    extended = job(**values)
    assert (extended.has_extras, is_plain(extended)) == (True, False)
    assert extended.has_limits is bool(values.keys() & {"partition", "concurrency", "rate_count"})


def test_keys_are_no_extras_but_not_plain_either() -> None:
    assert (job().has_extras, is_plain(job()), job().starts_at_once) == (False, True, True)
    keyed = job(unique_key="u", idempotency_key="i")
    assert (keyed.has_extras, is_plain(keyed), keyed.starts_at_once) == (False, False, True)
    later = [job(delay_ms=0), job(scheduled_for=datetime(2020, 1, 1, tzinfo=UTC)), job(tenant_id=ID)]
    assert not any(each.starts_at_once or is_plain(each) for each in later)


def test_the_first_car_of_a_train_that_is_not_busy_is_its_locomotive() -> None:
    cars = [job(train="a"), job(train="a"), job(train="b"), job(train="c"), job(), job(after=(ID,)), job()]
    starts = [None, None, None, 11, 10, None, 11]
    busy = {(job().tenant_id, "b")}
    assert first_statuses(cars, starts, 10, busy) == [
        *("queued", "held", "held", "scheduled"),
        *("queued", "held", "scheduled"),
    ]
    assert busy == {(job().tenant_id, name) for name in "abc"}


def test_a_first_car_that_waits_for_others_keeps_the_cars_behind_it_held() -> None:
    assert first_statuses([job(train="a", after=(ID,)), job(train="a")], [None, None], 10, set()) == ["held", "held"]


def test_a_settlement_has_output_by_each_of_these() -> None:
    silent = Settlement(id=ID, fence=1, status="failed", to="dead", error="boom", result="1")
    assert not silent.has_output
    for name, value in {"exit_code": 0, "stdout_tail": "", "stderr_tail": "", "pid": 1}.items():
        assert msgspec.structs.replace(silent, **{name: value}).has_output


def test_a_job_that_ended_without_its_key_holds_none_in_that_status() -> None:
    assert (covers('["queued","-dead"]', "queued"), covers('["queued","-dead"]', "dead")) == (True, False)
    assert enters('["queued"]', "running", "queued")
    assert not enters('["queued","running"]', "running", "queued")
    assert not enters('["queued"]', "queued", "running")


@pytest.mark.parametrize(
    ("train", "behind", "waited", "sleeps", "to"),
    [
        (None, False, False, False, "queued"),
        ("t", False, False, True, "held"),
        (None, True, False, True, "held"),
        ("t", True, True, False, "held"),
        (None, False, True, False, "waiting"),
        (None, False, False, True, "scheduled"),
    ],
)
def test_where_a_retry_puts_a_finished_job(
    train: str | None, behind: bool, waited: bool, sleeps: bool, to: str
) -> None:
    assert retried_to(train, behind=behind, waited=waited, sleeps=sleeps) == to


def test_only_an_at_most_once_job_that_ran_is_retried_by_a_new_one() -> None:
    assert [runs_anew(delivery, fence) for delivery in ("at_most_once", "at_least_once") for fence in (0, 1)] == [
        *(False, True),
        *(False, False),
    ]
