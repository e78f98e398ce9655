"""Context: what a handler sees, and what the worker learns from it."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

import pytest

from headway.define import Context
from headway.errors import InvalidPayload
from headway.model.job import Claim, Report


def claim(**changes: Any) -> Claim:
    values: dict[str, Any] = {
        "id": "j1",
        "tenant_id": "t1",
        "kind": "work",
        "queue": "mail",
        "payload": "{}",
        "fence": 4,
        "tries": 2,
        "losses": 1,
        "max_attempts": 5,
        "max_losses": 6,
        "backoff_base_ms": 1_000,
        "backoff_cap_ms": 2_000,
        "timeout_ms": None,
        "delivery": "at_least_once",
        "correlation_id": "c1",
        "trace_id": "x1",
        "meta": '{"origin":"import"}',
    }
    return Claim(**{**values, **changes})


def test_a_handler_sees_its_job() -> None:
    ctx = Context(claim(), tenant="acme")
    assert (ctx.job_id, ctx.tenant, ctx.kind, ctx.queue) == ("j1", "acme", "work", "mail")
    assert (ctx.tries, ctx.losses, ctx.fence) == (2, 1, 4)
    assert (ctx.trace_id, ctx.correlation_id, ctx.meta) == ("x1", "c1", {"origin": "import"})
    assert not ctx.timed_out
    assert Context(claim()).tenant == "t1"
    assert Context(claim(meta=None)).meta == {}


def test_a_cancel_is_seen() -> None:
    ctx = Context(claim())
    assert not ctx.canceled
    ctx.cancel()
    assert ctx.canceled
    with pytest.raises(AttributeError):
        ctx.canceled = False  # type: ignore[misc]


def test_a_report_is_given_once_and_holds_the_latest() -> None:
    ctx = Context(claim())
    assert ctx.take_report() is None
    ctx.progress(0.25, "first")
    ctx.progress(1)
    ctx.progress(0.5, "half\0way")
    assert ctx.take_report() == Report("j1", 4, 0.5, "half�way", None)
    assert ctx.take_report() is None
    ctx.log("one")
    ctx.log("two")
    assert ctx.take_report() == Report("j1", 4, 0.5, "half�way", "one\ntwo", 7)


@pytest.mark.parametrize("fraction", [-0.1, 1.01, math.nan, math.inf, "half", None, True])
def test_progress_is_a_fraction(fraction: Any) -> None:
    with pytest.raises(InvalidPayload, match="is not from 0 to 1: give the fraction that is done"):
        Context(claim()).progress(fraction)


def test_the_log_tail_is_bounded_and_keeps_the_end() -> None:
    ctx = Context(claim(), tail_limit=20)
    for number in range(100):
        ctx.log(f"line {number}")
    report = ctx.take_report()
    assert report is not None
    assert report.tail == "line 98\nline 99"
    ctx.log("é" * 30)
    report = ctx.take_report()
    assert report is not None
    assert report.tail == "é" * 10


def test_what_a_store_cannot_keep_is_replaced_in_a_log() -> None:
    ctx = Context(claim())
    ctx.log("a\0b")
    ctx.log("é\ud800")
    ctx.log(7)  # type: ignore[arg-type]
    report = ctx.take_report()
    assert report is not None
    assert report.tail == "a�b\né?\n7"


def test_a_log_line_goes_to_the_log_with_the_jobs_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="headway.job"):
        Context(claim(), worker_id="w1").log("sent 3 mails")
    (record,) = caplog.records
    assert "sent 3 mails" in record.getMessage()
    for field in ("job_id=j1", "kind=work", "attempt=4", "worker_id=w1", "tenant_id=t1", "trace_id=x1"):
        assert field in record.getMessage()


def test_threads_of_a_handler_may_report_together() -> None:
    ctx = Context(claim(), tail_limit=1_000_000)

    def talk(name: str) -> None:
        for number in range(200):
            ctx.progress(number / 200, name)
            ctx.log(f"{name}{number}")

    threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = ctx.take_report()
    assert report is not None
    assert report.tail is not None
    assert len(report.tail.split("\n")) == 800
