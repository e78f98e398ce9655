"""Bad input gets the same answer on both stores: the same type and the same words, with the fix in them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.errors import (
    ConfigError,
    Duplicate,
    HeadwayError,
    InvalidJob,
    InvalidPayload,
    NotAllowed,
    NotFound,
    UnknownKind,
)

NOBODY = "0198c0de-0000-7000-8000-00000000abcd"
NAIVE = datetime(2031, 5, 6, 7, 8)  # noqa: DTZ001

deep: Any = []
for _ in range(65):
    deep = [deep]
endless: list[Any] = []
endless.append(endless)


def payload(value: Any) -> Callable[[Headway], Any]:
    return lambda app: app.enqueue("elsewhere", {"x": {"y": [value]}})


def options(**given: Any) -> Callable[[Headway], Any]:
    return lambda app: app.enqueue("work", {"number": 1}, **given)


PAYLOADS: list[tuple[str, Any, str]] = [
    ("an object", object(), r"\$\.x\.y\[0\] is a object, which cannot be stored as JSON"),
    ("a function", print, "which cannot be stored as JSON"),
    ("a path", Path("x"), "which cannot be stored as JSON"),
    ("NaN", math.nan, r"\$\.x\.y\[0\] is nan, which JSON has no number for: pass None or a string"),
    ("infinity", -math.inf, "is -inf, which JSON has no number for"),
    ("NUL", "a\0b", r"\$\.x\.y\[0\] holds a NUL character, which PostgreSQL cannot keep"),
    ("a NUL key", {"a\0b": 1}, "has a key that holds a NUL character"),
    ("a lone surrogate", "a\ud800b", r"holds the lone surrogate '\\ud800', which is not text"),
    ("a surrogate key", {"\udfff": 1}, "has a key that holds the lone surrogate"),
    ("an integer over 64 bits", 2**64, "is an integer beyond 64 bits: pass it as a string"),
    ("an integer under 64 bits", -(2**63) - 1, "is an integer beyond 64 bits"),
    ("a naive datetime", NAIVE, r"is the naive datetime 2031-05-06T07:08:00: add a zone, e\.g\. datetime\.now\(UTC\)"),
    ("more than a mebibyte", "x" * 1_048_577, r"the payload is 1,048,59\d bytes of JSON, over the limit of 1,048,576"),
    ("too deep", deep, "is nested deeper than 64 levels"),
    ("itself", endless, "is nested deeper than 64 levels, or contains itself"),
    ("a key of no type", {(1, 2): 3}, "has a key that is"),
]

CASES: list[tuple[str, Callable[[Headway], Any], type[HeadwayError], str]] = [
    *((name, payload(value), InvalidPayload, message) for name, value, message in PAYLOADS),
    ("no mapping", lambda app: app.enqueue("work", [1]), InvalidJob, "is a mapping of its parameters, not list"),
    ("missing", lambda app: app.enqueue("work"), InvalidJob, r"work\(\): the argument number is missing"),
    ("unknown", lambda app: app.enqueue("work", {"n": 1}), InvalidJob, "there is no such parameter; it takes number"),
    (
        "wrong type",
        lambda app: app.enqueue("work", {"number": "1"}),
        InvalidPayload,
        r"work\(number=…\): expected `int`",
    ),
    ("kind", lambda app: app.enqueue("no spaces"), InvalidJob, "kind='no spaces' is not a valid name: use 1 to 128"),
    ("kind of nothing", lambda app: app.enqueue(""), InvalidJob, "kind='' is not a valid name"),
    ("long kind", lambda app: app.enqueue("x" * 129), InvalidJob, "is not a valid name"),
    ("queue", options(queue="no spaces"), InvalidJob, "queue='no spaces' is not a valid name: use 1 to 128 letters"),
    ("queue of nothing", options(queue=""), InvalidJob, "queue='' is not a valid name"),
    ("queue with NUL", options(queue="a\0"), InvalidJob, "is not a valid name"),
    ("queue with dash", options(queue="-a"), InvalidJob, "starting with a letter, a digit or '_'"),
    ("negative delay", options(delay=-1), InvalidJob, "delay=-1 is out of range: durations are from 0 to 100 years"),
    ("negative timedelta", options(delay=timedelta(-1)), InvalidJob, "is out of range"),
    ("negative text", options(delay="-5m"), InvalidJob, "delay='-5m' is not a duration: use a string like '90s'"),
    ("no duration", options(delay="soon"), InvalidJob, "delay='soon' is not a duration"),
    ("endless delay", options(delay=math.inf), InvalidJob, "delay=inf is not a duration"),
    ("too long", options(delay="9999999w"), InvalidJob, "is out of range"),
    ("both times", options(delay=1, scheduled_for=datetime.now(UTC)), InvalidJob, "exclude each other"),
    ("naive", options(scheduled_for=NAIVE), InvalidJob, r"carries no zone: use datetime\.now\(UTC\)"),
    ("naive expiry", options(expires_at=NAIVE), InvalidJob, "carries no zone"),
    ("no datetime", options(scheduled_for="tomorrow"), InvalidJob, "is not a datetime"),
    ("past expiry", options(expires_at=datetime(2001, 1, 1, tzinfo=UTC)), InvalidJob, "is in the past"),
    ("priority", options(priority=32_768), InvalidJob, "priority=32768 is out of range"),
    ("priority's type", options(priority="high"), InvalidJob, "priority='high' is not a whole number"),
    ("attempts", options(max_attempts=0), InvalidJob, "max_attempts=0 is out of range"),
    ("timeout", options(timeout=0), InvalidJob, "timeout=0 would end every execution at once"),
    ("tenant", options(tenant="no spaces"), InvalidJob, "tenant 'no spaces' is not a valid name"),
    ("empty key", options(unique_key=""), InvalidJob, "unique_key is empty"),
    ("NUL key", options(idempotency_key="\0"), InvalidJob, "holds a NUL character"),
    ("surrogate key", options(correlation_id="\ud800"), InvalidJob, "holds the lone surrogate"),
    ("long key", options(unique_key="x" * 513), InvalidJob, "has 513 characters, over the limit of 512"),
    ("scope alone", options(unique_scope={"queued"}), InvalidJob, "means nothing without a unique_key"),
    ("scope", options(unique_key="k", unique_scope={"done"}), InvalidJob, "the unknown status 'done'"),
    ("conflict", options(on_conflict="ignore"), InvalidJob, "on_conflict='ignore' is unknown: use 'return' or 'raise'"),
    ("meta", options(meta={"x": math.nan}), InvalidJob, "the meta cannot be stored"),
    ("big meta", options(meta={"x": "y" * 70_000}), InvalidJob, "the meta is 70,008 bytes of JSON, over the limit"),
    ("option", options(prio=1), InvalidJob, r"using\(\) has no option prio: did you mean priority\?"),
    ("kind's option", options(retry_on=OSError), InvalidJob, "it belongs to the kind"),
    ("no job", lambda app: app.enqueue_many([{"kind": "work"}]), InvalidJob, "takes what kind.build"),
    (
        "unknown kind",
        lambda app: app.kinds["wrok"],
        UnknownKind,
        r'kind "wrok" is not defined here: did you mean work\?',
    ),
    ("id", lambda app: app.get("seven"), NotFound, "'seven' is not a job id"),
    ("id of a page", lambda app: app.jobs(before="seven"), InvalidJob, "before='seven' is not an id"),
    ("no key", options(on_conflict="raise"), InvalidJob, "on_conflict='raise' does nothing without a key"),
    ("no id", lambda app: app.cancel(None), NotFound, "None is not a job id"),
    ("nobody", lambda app: app.get(NOBODY), NotFound, f"there is no job {NOBODY}"),
    ("limit", lambda app: app.jobs(limit=0), InvalidJob, "limit=0 must be a whole number from 1 to 10,000"),
    ("status", lambda app: app.jobs(status="done"), InvalidJob, "status='done' does not exist"),
    ("filter", lambda app: app.jobs(color="red"), InvalidJob, "'color' is not a filter: use status, kind"),
    ("naive filter", lambda app: app.jobs(created_after=NAIVE), InvalidJob, "must be a datetime with a zone"),
    ("no change", lambda app: app.change(NOBODY), InvalidJob, "there is nothing to change"),
    ("change", lambda app: app.change(NOBODY, color=1), InvalidJob, r"change\(\) has no option color"),
    ("naive change", lambda app: app.change(NOBODY, scheduled_for=NAIVE), InvalidJob, "carries no zone"),
    ("negative change", lambda app: app.change(NOBODY, delay=-1), InvalidJob, "delay=-1 is out of range"),
    ("reason", lambda app: app.cancel(NOBODY, reason="a\0"), InvalidJob, "reason='a.*holds a NUL character"),
    ("schedule", lambda app: app.create_schedule("a", kind="work", crom="* * * * *"), InvalidJob, "mean cron"),
    ("trigger", lambda app: app.create_trigger("a", "b.c", knd="work"), InvalidJob, "no option knd: did you mean kind"),
    ("limits", lambda app: app.limit(queue="q", max_runing=1), InvalidJob, "mean max_running"),
    ("setting", lambda app: Headway(app.url, leese="30s"), ConfigError, "'leese' is not a setting: use url, tz, lease"),
    ("pause", lambda app: app.pause("no spaces"), InvalidJob, "queue='no spaces' is not a valid name"),
]


@pytest.mark.parametrize(("act", "kind", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_answer_is_the_same_on_both_stores(
    both: list[Headway], act: Callable[[Headway], Any], kind: type[HeadwayError], message: str
) -> None:
    answers = []
    for app in both:

        @app.job
        def work(number: int) -> None: ...

        with pytest.raises(kind, match=message) as caught:
            act(app)
        answers.append((type(caught.value), str(caught.value)))
        assert app.counts() == {}
    assert answers[0] == answers[1]
    assert answers[0][0] is kind


def test_refusals_of_stored_jobs_are_the_same_too(both: list[Headway]) -> None:
    def told(kind: type[HeadwayError], verb: Callable[..., Any], *args: Any, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            verb(*args, **options)
        return str(caught.value)

    def answers(app: Headway) -> list[str]:
        job = app.enqueue("work", unique_key="k")
        told_now = [told(Duplicate, app.enqueue, "work", unique_key="k", on_conflict="raise")]
        told_now.append(told(NotAllowed, app.retry, job.id))
        app.cancel(job.id)
        told_now.append(told(NotAllowed, app.change, job.id, priority=1))
        other = app.enqueue("work", unique_key="k")
        told_now.append(told(Duplicate, app.retry, job.id))
        return [text.replace(job.id, "JOB").replace(other.id, "OTHER") for text in told_now]

    assert answers(both[0]) == answers(both[1])


def test_what_is_at_the_limits_is_kept_exactly(both: list[Headway]) -> None:
    given: dict[str, Any] = {
        "integers": [2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0],
        "floats": [0.1, 1e308, -1e-308, 5e-324, 1.0, -0.5, 123456789.123456789],
        "text": ["", "\x01\x7f", "ä😀\u2028", "\\u0000", "\\", '"'],
        "nothing": [None, True, False, {}, []],
        "keys": {"": 1, "a b": 2, "ä": 3, "zz": 4, "b": 5},
    }
    nest: Any = "bottom"
    for _ in range(62):
        nest = [nest]
    given["deep"] = nest
    for app in both:

        @app.job
        def echo(value: dict[str, Any]) -> dict[str, Any]:
            return value

        job = echo.using(meta=given["keys"]).enqueue(given)
        big = app.enqueue("elsewhere", {"x": "x" * (1_048_576 - 8)})
        app.run(until_idle=True)
        stored = app.get(job.id)
        assert stored.payload == {"value": given}
        assert stored.result == given
        assert app.result(job.id).value == given
        assert list(stored.payload["value"]["keys"]) == list(given["keys"])
        assert [type(number) for number in stored.payload["value"]["floats"]] == [float] * 7
        assert len(app.get(big.id).payload["x"]) == 1_048_568


def test_the_limit_of_a_payload_is_the_apps(url: str) -> None:
    app = Headway(url, payload_limit=100)

    @app.job
    def work(text: str) -> None: ...

    with pytest.raises(InvalidPayload, match="over the limit of 100"):
        work.enqueue("x" * 100)
    with pytest.raises(InvalidPayload, match="over the limit of 100"):
        app.tenant("acme").enqueue("work", {"text": "x" * 100})
    with pytest.raises(InvalidPayload, match="over the limit of 100"):
        asyncio.run(work.aenqueue("x" * 100))
    job = app.enqueue("work", {"text": "x"})
    with pytest.raises(HeadwayError, match="over the limit of 100"):
        app.change(job.id, payload={"text": "x" * 100})
    app.close()
