"""`enqueuer_may`: checked where a kind is defined, and stored with its definition."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Machine, step
from headway.define.definitions import definition_of
from headway.define.enqueuer_may import bounds
from headway.define.registry import Registry
from headway.errors import InvalidJob


def nothing(n: int) -> None:
    del n


def test_bounds_are_stored_as_plain_numbers() -> None:
    given = {"queue": ["mail", "slow"], "timeout": "5m", "concurrency": 10, "partition": True, "rate": "100/min"}
    stored = {
        "queue": ["mail", "slow"],
        "timeout": 300_000,
        "concurrency": 10,
        "partition": True,
        "rate": [100, 60_000],
    }
    assert bounds(given) == stored
    assert bounds(dict.fromkeys(given, True)) == dict.fromkeys(given, True)
    assert bounds(None) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["queue"], "is not a mapping"),
        ({"priority": True}, "'priority', which is no restricted option: name some of queue, timeout"),
        ({"queue": "mail"}, "is not a list of queues"),
        ({"queue": []}, "is not a list of queues"),
        ({"queue": ["not a name"]}, "is not a valid name"),
        ({"timeout": "soon"}, "is not a duration"),
        ({"timeout": 0}, "enqueuer_may of timeout=0 is no bound"),
        ({"concurrency": 0}, "out of range"),
        ({"rate": "fast"}, "is not a rate"),
        ({"rate": None}, "is not a rate"),
        ({"partition": "p"}, "enqueuer_may of partition='p' is no bound: give True"),
        ({"rate_key": False}, "enqueuer_may of rate_key=False is no bound: give True"),
    ],
)
def test_a_bound_that_cannot_be_is_refused_with_the_fix(given: Any, words: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        Registry().job(enqueuer_may=given)(nothing)
    assert words in str(refusal.value)


def test_a_single_job_cannot_carry_it() -> None:
    kind = Registry().job(nothing)
    with pytest.raises(InvalidJob, match="it belongs to the kind"):
        kind.using(enqueuer_may={"rate": True})  # type: ignore[call-arg]


def test_a_definition_says_what_enqueuers_may_set_and_what_the_code_makes() -> None:
    kind = Registry().job(partition="p-{n}", rate="1/s", rate_key="{n}", enqueuer_may={"timeout": 60})(nothing)
    definition = definition_of(kind)
    assert msgspec.json.decode(definition.enqueuer_may) == {"timeout": 60_000}
    policy = msgspec.json.decode(definition.policy)
    assert policy == {
        "rate_count": 1,
        "rate_period_ms": 1_000,
        "made_keys": ["partition", "rate_key"],
        "key_templates": {"partition": "p-{n}", "rate_key": "{n}"},
        "code_keys": [],
    }


def test_a_machine_has_it_too_and_tells_the_queues_of_its_steps() -> None:
    class Approval(Machine, version=1, queue="approvals", enqueuer_may={"queue": ["slow"]}):
        @step(queue="intake")
        def start(self, ctx: Any) -> None:
            del ctx

        @step(queue="far", partition="p")
        def later(self, ctx: Any) -> None:
            del ctx

    registry = Registry()
    registry.machine(Approval)
    (kind,) = registry
    definition = definition_of(kind)
    assert msgspec.json.decode(definition.enqueuer_may) == {"queue": ["slow"]}
    assert msgspec.json.decode(definition.policy) == {"step_queues": ["far", "intake"], "made_keys": ["partition"]}
