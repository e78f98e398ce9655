"""Options: their defaults, what they accept, and the refusal of everything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from headway.clock import HeldClock
from headway.define import Kind, new_job
from headway.define.enqueuer import Binding
from headway.define.options import Options, kind_options
from headway.errors import InvalidJob
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import NewJob
from headway.model.status import UNFINISHED

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


class App:
    """An app whose clock is held."""

    payload_limit = 1_000_000

    def __init__(self) -> None:
        self.clock = HeldClock(NOW)

    def enqueue_new(self, job: NewJob, conn: Any) -> Any: ...
    async def aenqueue_new(self, job: NewJob, conn: Any) -> Any: ...


def kind(**options: Any) -> Kind[[], None]:
    def work() -> None: ...

    binding = Binding()
    binding.add(App())
    return Kind(work, options, binding=binding)  # type: ignore[arg-type]


def built(**options: Any) -> NewJob:
    return kind().using(**options).build()


def test_a_job_without_options_has_the_defaults() -> None:
    job = kind().build()
    assert job == NewJob(id=job.id, kind="work")
    assert job.queue == "default"
    assert (job.max_attempts, job.max_losses, job.backoff_base_ms, job.backoff_cap_ms) == (
        5,
        5,
        1_000,
        3_600_000,
    )


def test_every_option_arrives_on_the_row() -> None:
    job = built(
        queue="mail/fast:1",
        max_attempts=7,
        max_losses=8,
        backoff=("2s", "9m"),
        timeout="30s",
        priority=-5,
        delivery="at_most_once",
        tenant="acme",
        scheduled_for=NOW,
        expires_at=LATER,
        idempotency_key="i1",
        unique_key="u1",
        unique_scope={"running", "queued"},
        on_conflict="raise",
        meta={"a": 1},
        correlation_id=UUID(int=1),
        trace_id="t1",
        source="event",
        source_ref="r1",
        created_by="me",
        train="t1",
        on_canceled="hold",
        on_dead="hold",
        partition=42,
        concurrency=3,
        concurrency_key=UUID(int=4),
        rate="5/2h",
        burst=9,
        rate_key="r2",
        group=UUID(int=2),
        after=[UUID(int=3)],
        on_failure="continue",
    )
    assert job == NewJob(
        id=job.id,
        kind="work",
        queue="mail/fast:1",
        max_attempts=7,
        max_losses=8,
        backoff_base_ms=2_000,
        backoff_cap_ms=540_000,
        timeout_ms=30_000,
        priority=-5,
        delivery="at_most_once",
        tenant="acme",
        tenant_id="",  # until the app has looked it up
        scheduled_for=NOW,
        expires_at=LATER,
        idempotency_key="i1",
        unique_key="u1",
        unique_scope=("queued", "running"),
        on_conflict="raise",
        meta='{"a":1}',
        correlation_id=str(UUID(int=1)),
        trace_id="t1",
        source="event",
        source_ref="r1",
        created_by="me",
        train="t1",
        on_canceled="hold",
        on_dead="hold",
        partition="42",
        concurrency=3,
        concurrency_key=str(UUID(int=4)),
        rate_count=5,
        rate_period_ms=7_200_000,
        rate_burst=9,
        rate_key="r2",
        group_id=str(UUID(int=2)),
        after=(str(UUID(int=3)),),
        on_failure="continue",
    )


NAIVE = datetime(2031, 5, 6)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prioritty": 1}, "using() has no option prioritty: did you mean priority?"),
        ({"countdown": 5}, "using() has no option countdown: did you mean delay?"),
        ({"eta": 5}, "using() has no option eta: did you mean scheduled_for?"),
        ({"run_after": 5}, "using() has no option run_after: did you mean scheduled_for?"),
        ({"max_retries": 5}, "using() has no option max_retries: did you mean max_attempts?"),
        ({"zzz": 1}, "using() has no option zzz: it takes after, backoff, burst"),
        ({"schema": {}}, "schema cannot be set by using(): it belongs to the kind"),
        ({"name": "x"}, "name cannot be set by using()"),
        ({"retry_on": OSError}, "retry_on cannot be set by using()"),
        ({"queue": "a b"}, "queue='a b' is not a valid name: use 1 to 128 letters"),
        ({"queue": ""}, "queue='' is not a valid name"),
        ({"queue": "x" * 129}, "is not a valid name"),
        ({"queue": "-x"}, "starting with a letter, a digit or '_'"),
        ({"queue": "x\n"}, "is not a valid name"),
        ({"queue": "ü"}, "is not a valid name"),
        ({"queue": None}, "queue=None is not a valid name"),
        ({"priority": 40_000}, "priority=40000 is out of range: give a whole number from -32768 to 32767"),
        ({"priority": "high"}, "priority='high' is not a whole number"),
        ({"priority": True}, "priority=True is not a whole number"),
        ({"max_attempts": 0}, "max_attempts=0 is out of range: give a whole number from 1 to 32767"),
        ({"max_losses": 32_768}, "max_losses=32768 is out of range"),
        ({"max_attempts": 2.5}, "max_attempts=2.5 is not a whole number"),
        ({"delay": -1}, "delay=-1 is out of range"),
        ({"delay": "soon"}, "delay='soon' is not a duration"),
        ({"timeout": "0s"}, "timeout='0s' would end every execution at once: give None for no timeout"),
        ({"timeout": -3}, "timeout=-3 is out of range"),
        (
            {"scheduled_for": NAIVE},
            "scheduled_for=datetime.datetime(2031, 5, 6, 0, 0) carries no zone: "
            "use datetime.now(UTC) or .replace(tzinfo=…)",
        ),
        ({"expires_at": NAIVE}, "carries no zone"),
        ({"scheduled_for": "tomorrow"}, "scheduled_for='tomorrow' is not a datetime"),
        ({"delay": "5m", "scheduled_for": NOW}, "delay=5m and scheduled_for=2031"),
        (
            {"expires_at": LATER, "scheduled_for": LATER},
            "expires_at=2031-05-06T08:08:09+00:00 is not after scheduled_for=2031-05-06T08:08:09+00:00",
        ),
        ({"expires_at": NOW}, "expires_at=2031-05-06T07:08:09+00:00 is in the past: the job would never run"),
        ({"expires_at": LATER, "delay": "2h"}, "is before the end of the delay of 7200s"),
        (
            {"unique_scope": {"queued"}},
            "unique_scope={'queued'} means nothing without a unique_key: give both",
        ),
        ({"unique_key": "u", "unique_scope": {"quued"}}, "unique_scope has the unknown status 'quued'"),
        ({"unique_key": "u", "unique_scope": "queued"}, "unique_scope='queued' is not a set of statuses"),
        ({"unique_key": "u", "unique_scope": 3}, "unique_scope=3 is not a set of statuses"),
        ({"unique_key": "u", "unique_scope": ()}, "unique_scope is empty"),
        ({"on_conflict": "ignore"}, "on_conflict='ignore' is unknown: use 'return' or 'raise'"),
        ({"delivery": "once"}, "delivery='once' is unknown: use 'at_least_once' or 'at_most_once'"),
        ({"source": "me"}, "source='me' is unknown: use 'manual' or 'event' or 'schedule' or 'system'"),
        ({"on_conflict": []}, "on_conflict=[] is unknown"),
        ({"unique_key": "x" * 513}, "has 513 characters, over the limit of 512"),
        ({"idempotency_key": ""}, "idempotency_key is empty"),
        ({"idempotency_key": 7}, "idempotency_key=7 is int, not a string"),
        ({"correlation_id": "a\0"}, "correlation_id='a\\x00' holds a NUL character"),
        ({"trace_id": "\ud800"}, "trace_id='\\ud800' holds the lone surrogate"),
        ({"tenant": "no spaces"}, "tenant 'no spaces' is not a valid name"),
        ({"tenant": 7}, "a tenant is a name or a UUID, not int"),
        ({"meta": [1]}, "meta=[1] is not a dict"),
        ({"meta": {"a": "x" * 65_536}}, "the meta is 65,544 bytes of JSON, over the limit of 65,536"),
        ({"meta": {"a": float("nan")}}, "the meta cannot be stored: $.a is nan"),
        ({"backoff": ("1s",)}, "backoff=('1s',) is not a pair: give (base, cap)"),
        ({"backoff": ("2h", "1h")}, "starts above its cap"),
        ({"backoff": "x"}, "backoff='x' is not a duration"),
        ({"backoff": lambda n: n}, "is a function, which a job's row cannot carry: give it to the kind"),
    ],
)
def test_a_wrong_option_of_a_job_is_refused_with_the_fix(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        built(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queu": "x"}, "@job has no option queu: did you mean queue?"),
        ({"group": "x"}, "@job has no option group"),
        ({"after": []}, "@job has no option after"),
        ({"delay": "x"}, "@job has no option delay"),
        ({"max_attempts": 0}, "max_attempts=0 is out of range"),
        ({"retry_on": "OSError"}, "retry_on='OSError' is not an exception class or a tuple of them"),
        ({"retry_on": ()}, "retry_on=() is not an exception class"),
        ({"discard_on": (OSError, 3)}, "discard_on has 3, which is not a subclass of Exception"),
        ({"discard_on": KeyboardInterrupt}, "which is not a subclass of Exception"),
        ({"retry_on": OSError, "discard_on": [OSError]}, "OSError is in retry_on and in discard_on"),
    ],
)
def test_a_wrong_option_of_a_kind_is_refused_at_definition(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        kind(**options)
    assert message in str(caught.value)


def test_losses_follow_attempts_until_they_are_given() -> None:
    assert built(max_attempts=9).max_losses == 9
    assert kind(max_attempts=3).using(max_attempts=9).build().max_losses == 9
    assert kind(max_losses=2).using(max_attempts=9).build().max_losses == 2
    assert built(max_attempts=9, max_losses=4).max_losses == 4


def test_backoff_is_a_base_a_pair_or_a_function() -> None:
    def row(backoff: Any) -> tuple[int, int]:
        options = kind_options({"backoff": backoff})
        return options.backoff_base_ms, options.backoff_cap_ms

    assert row("5s") == (5_000, 3_600_000)
    assert row("2h") == (7_200_000, 7_200_000)
    assert row((1, timedelta(minutes=1))) == (1_000, 60_000)

    def doubled(tries: int) -> float:
        return tries * 2.0

    own = kind(backoff=doubled)
    assert own.options.backoff is doubled
    assert own.build().backoff_base_ms == 1_000
    with pytest.raises(InvalidJob, match="would never be used: the kind computes its backoff"):
        own.using(backoff="5s")


def test_using_makes_a_copy_and_later_calls_go_over_earlier_ones() -> None:
    plain = kind(queue="mail")
    first = plain.using(unique_key="a", priority=1, delay="5m")
    second = first.using(unique_key="b", scheduled_for=LATER)
    assert plain.build().unique_key is None
    assert (first.build().unique_key, first.build().delay_ms) == ("a", 300_000)
    job = second.build()
    assert (job.unique_key, job.priority, job.queue) == ("b", 1, "mail")
    assert (job.delay_ms, job.scheduled_for) == (None, LATER)
    assert second.using(delay="1s").build().scheduled_for is None
    back = second.using(unique_key=None, scheduled_for=None).build()
    assert (back.unique_key, back.scheduled_for) == (None, None)
    assert (second.name, second.fn) == (plain.name, plain.fn)


def test_a_scope_is_all_unfinished_statuses_and_can_be_taken_back() -> None:
    assert built(unique_key="u").unique_scope == UNFINISHED
    scoped = kind().using(unique_key="u", unique_scope=["dead"])
    assert scoped.build().unique_scope == ("dead",)
    assert scoped.using(unique_scope=None).build().unique_scope == UNFINISHED


def test_a_zone_is_any_zone() -> None:
    zoned = datetime(2031, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    assert built(scheduled_for=zoned).scheduled_for == zoned


def test_a_tenant_is_a_name_or_a_uuid() -> None:
    some = UUID(int=9)
    assert (built(tenant=some).tenant, built(tenant=some).tenant_id) == (str(some), "")
    back = kind().using(tenant="acme").using(tenant=None).build()
    assert (back.tenant, back.tenant_id) == (None, DEFAULT_TENANT_ID)


def test_which_errors_are_worth_another_try() -> None:
    assert Options().retries(ValueError())
    picky = kind_options({"retry_on": OSError, "discard_on": (FileNotFoundError,)})
    assert picky.retries(ConnectionError())
    assert not picky.retries(FileNotFoundError())
    assert not picky.retries(ValueError())


def test_expiry_is_judged_when_a_job_is_built() -> None:
    waiting = kind().using(expires_at=LATER)
    assert waiting.build().expires_at == LATER
    app = next(iter(waiting._binding))
    app.clock.advance(timedelta(hours=2))
    with pytest.raises(InvalidJob, match="is in the past"):
        waiting.build()


def test_a_job_of_an_unknown_kind_is_checked_alike() -> None:
    job = new_job("elsewhere", '{"a":1}', {"queue": "q", "delay": "5s"}, now=0)
    assert (job.kind, job.payload, job.queue, job.delay_ms) == ("elsewhere", '{"a":1}', "q", 5_000)
    with pytest.raises(InvalidJob, match="kind='no spaces' is not a valid name"):
        new_job("no spaces", "{}", {}, now=0)
    with pytest.raises(InvalidJob, match="using\\(\\) has no option qeue"):
        new_job("elsewhere", "{}", {"qeue": 1}, now=0)
