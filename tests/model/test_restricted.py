"""Which restricted options an untrusted enqueuer may set, as a pure rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.errors import NotAllowed
from headway.model.definition import Definition
from headway.model.restricted import FIELDS, restricted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TWENTY_A_SECOND = {"rate_count": 20, "rate_period_ms": 1_000}


def a_definition(
    may: dict[str, Any] | None = None,
    *,
    queue: str = "mail",
    timeout_ms: int | None = 60_000,
    policy: dict[str, Any] = TWENTY_A_SECOND,
) -> Definition:
    return Definition(
        kind="send",
        description="",
        schema=None,
        timeout_ms=timeout_ms,
        max_attempts=5,
        queue=queue,
        enqueuer_may=may or {},
        policy=policy,
        computed=False,
        active=True,
        changed=(),
        origin="code",
        revision=1,
        created_at=NOW,
        updated_at=NOW,
    )


def test_what_is_not_asked_for_is_as_the_definition_says() -> None:
    fields = restricted("send", a_definition(policy=TWENTY_A_SECOND | {"partition": "p", "concurrency": 3}), {})
    assert fields == dict.fromkeys(FIELDS) | TWENTY_A_SECOND | {
        "queue": "mail",
        "timeout_ms": 60_000,
        "partition": "p",
        "concurrency": 3,
    }


def test_to_ask_for_what_the_definition_says_is_allowed() -> None:
    definition = a_definition()
    own = restricted("send", definition, {})
    assert restricted("send", definition, own) == own


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({"queue": "slow"}, "queue"),
        ({"timeout_ms": 1}, "timeout"),
        ({"partition": "p"}, "partition"),
        ({"concurrency": 1}, "concurrency"),
        ({"concurrency_key": "k"}, "concurrency_key"),
        ({"rate_count": 1, "rate_period_ms": 365 * 86_400_000}, "rate"),
        ({"rate_burst": 9}, "rate"),
        ({"rate_key": "k"}, "rate_key"),
    ],
)
def test_by_default_nothing_may_be_set(asked: dict[str, Any], option: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        restricted("send", a_definition(), asked)
    assert str(refusal.value) == (
        f'kind "send" does not let its enqueuers set {option}: nothing was written; leave it out, or allow it by '
        "enqueuer_may in the kind's definition"
    )
    with pytest.raises(NotAllowed, match=f'kind "send" has no definition that lets its enqueuers set {option}:'):
        restricted("send", None, asked)


def test_a_kind_without_a_definition_has_the_defaults() -> None:
    assert restricted("send", None, {"queue": "default"}) == dict.fromkeys(FIELDS) | {"queue": "default"}


@pytest.mark.parametrize(
    ("may", "asked", "words"),
    [
        ({"queue": ["slow", "bulk"]}, {"queue": "fast"}, "queue to one of slow, bulk, not to fast"),
        ({"timeout": 300_000}, {"timeout_ms": 300_001}, "timeout to at most 300000ms, not to 300001ms"),
        ({"concurrency": 10}, {"concurrency": 11}, "concurrency to at most 10, not to 11"),
        (
            {"rate": [100, 60_000]},
            {"rate_count": 2, "rate_period_ms": 1_000},
            "rate to at most 100 in 60000ms, not to 2 in 1000ms",
        ),
        (
            {"rate": [100, 60_000]},
            {"rate_count": 6_000, "rate_period_ms": 3_600_000},
            "rate to at most 100 in 60000ms, not to 6000 in 3600000ms",
        ),
        (
            {"rate": [100, 60_000]},
            {"rate_count": 1, "rate_period_ms": 1_000, "rate_burst": 101},
            "rate to at most 100 in 60000ms, not to 1 in 1000ms with a burst of 101",
        ),
    ],
)
def test_a_bound_is_not_exceeded(may: dict[str, Any], asked: dict[str, Any], words: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        restricted("send", a_definition(may), asked)
    assert str(refusal.value) == f'kind "send" lets its enqueuers set {words}: nothing was written'
    (option,) = may
    assert restricted("send", a_definition({option: True}), asked).items() >= asked.items()


def test_what_is_within_the_bounds_is_set() -> None:
    may = {"queue": ["slow"], "timeout": 300_000, "partition": True}
    asked = {"queue": "slow", "timeout_ms": 300_000, "partition": "p"}
    assert restricted("send", a_definition(may), asked).items() >= asked.items()


def test_a_limit_of_its_own_is_kept_in_the_tenants_bucket() -> None:
    may = {"rate": True, "concurrency": True}
    asked = {"rate_count": 1, "rate_period_ms": 365 * 86_400_000, "concurrency": 1}
    fields = restricted("send", a_definition(may), asked)
    assert (fields["rate_key"], fields["concurrency_key"]) == ("tenant", "tenant")
    named = restricted("send", a_definition(may), asked | {"rate_key": "r", "concurrency_key": "c"})
    assert (named["rate_key"], named["concurrency_key"]) == ("r", "c")
    keyed = a_definition(may, policy=TWENTY_A_SECOND | {"rate_key": "k"})
    assert restricted("send", keyed, asked)["rate_key"] == "k"


def test_keys_that_the_code_makes_may_be_given_and_the_queues_of_steps() -> None:
    made = a_definition(
        policy=TWENTY_A_SECOND | {"made_keys": ["partition", "rate_key"], "step_queues": ["intake", "far"]}
    )
    asked = {"queue": "intake", "partition": "p", "rate_key": "r"}
    assert restricted("send", made, asked).items() >= asked.items()
    with pytest.raises(NotAllowed, match="set concurrency_key"):
        restricted("send", made, {"concurrency_key": "c"})
