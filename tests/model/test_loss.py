"""What a loss does to a job, and where an end takes it."""

from __future__ import annotations

import pytest

from headway.model.loss import Loss, lost
from headway.model.retry import destination

POLICY = {
    "stopping": False,
    "canceling": False,
    "delivery": "at_least_once",
    "tries": 0,
    "losses": 0,
    "max_attempts": 5,
    "max_losses": 3,
    "backoff_base_ms": 1_000,
    "backoff_cap_ms": 60_000,
    "jitter": 0.5,
}


def test_a_loss_is_charged_and_waits_with_jitter():
    assert lost("host:7", **POLICY) == Loss(
        to="scheduled", charge=1, delay_ms=1_000, error="lost with its worker host:7"
    )
    assert lost("host:7", **POLICY | {"losses": 1}).delay_ms == 2_000
    assert lost("host:7", **POLICY | {"jitter": 0.0}).delay_ms == 1
    assert lost("host:7", **POLICY | {"losses": 40, "max_losses": 99}).delay_ms == 30_000


def test_too_many_losses_are_a_jobs_end():
    found = lost("host:7", **POLICY | {"losses": 2})
    assert (found.to, found.charge) == ("dead", 1)
    assert found.error.endswith("3 times now: it may be what kills them (a poison pill)")


def test_a_worker_that_was_stopping_charges_nothing():
    found = lost("host:7", **POLICY | {"losses": 3, "stopping": True})
    assert (found.to, found.charge) == ("scheduled", 0)


def test_over_at_most_once_a_new_job_retries_it_until_attempts_and_losses_are_spent():
    once = POLICY | {"delivery": "at_most_once"}
    assert lost(None, **once).to == "failed"
    assert lost(None, **once | {"tries": 3}).to == "failed"
    assert lost(None, **once | {"tries": 4}).to == "dead"


def test_one_that_was_asked_to_cancel_is_canceled():
    found = lost(None, **POLICY | {"losses": 2, "canceling": True})
    assert found == Loss(to="canceled", charge=1, error="it was running without a worker")


@pytest.mark.parametrize(
    ("to", "canceling", "retried", "delay_ms", "goes"),
    [
        ("scheduled", False, False, 5, "scheduled"),
        ("scheduled", False, False, 0, "queued"),
        ("scheduled", True, False, 5, "canceled"),
        ("waiting", True, False, 0, "canceled"),
        ("succeeded", True, False, 0, "succeeded"),
        ("dead", True, False, 0, "dead"),
        ("failed", True, True, 0, "canceled"),
        ("failed", True, False, 0, "failed"),  # it stopped itself
        ("failed", False, True, 0, "failed"),
    ],
)
def test_where_an_end_takes_a_job(to, canceling, retried, delay_ms, goes):
    assert destination(to, canceling=canceling, retried=retried, delay_ms=delay_ms) == goes
