"""assert_enqueued and its kin: find jobs by what matters, and show what is there when they do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY
from uuid import UUID

import pytest

from headway import Headway
from headway.errors import InvalidJob
from headway.testing import all_enqueued, assert_enqueued, drain, held, refute_enqueued

ORDER = UUID("0198c0de-0000-7000-8000-00000000abcd")


@pytest.fixture
def welcome(app: Headway) -> Any:
    @app.job(queue="mail")
    def welcome(user_id: int, order: UUID | None = None, tags: list[str] | None = None) -> None: ...

    return welcome


def message_of(call: Callable[[], Any]) -> str:
    with pytest.raises(AssertionError) as caught:
        call()
    return str(caught.value)


def test_a_part_of_the_payload_is_enough(app: Headway, welcome: Any) -> None:
    first = welcome.enqueue(7, order=ORDER, tags=["a", "b"])
    second = welcome.using(priority=1, meta={"from": "import", "n": 1}, delay="1h").enqueue(8)
    assert [job.id for job in assert_enqueued(app)] == [first.id, second.id]
    assert [job.id for job in assert_enqueued(app, welcome, payload={"user_id": 7}, count=1)] == [first.id]
    assert assert_enqueued(app, "welcome", count=2)
    assert assert_enqueued(app, welcome, payload={"order": ORDER, "tags": ["a", ANY]}, queue="mail")
    assert assert_enqueued(app, meta={"n": 1}, priority=lambda p: p < 10, status="scheduled", count=1)
    assert assert_enqueued(app, payload=lambda p: p["user_id"] > 7, scheduled_for=ANY, tenant="default", count=1)
    assert len(all_enqueued(app, status={"queued"})) == 1
    refute_enqueued(app, welcome, payload={"user_id": 9})
    refute_enqueued(app, welcome, payload={"user_id": 7, "more": 1})
    refute_enqueued(app, welcome, payload={"tags": ["a"]})
    refute_enqueued(app, "farewell")


def test_what_has_run_is_no_longer_enqueued(app: Headway, welcome: Any) -> None:
    welcome.enqueue(7)
    drain(app)
    refute_enqueued(app, welcome)
    assert_enqueued(app, welcome, status="succeeded", count=1)
    assert_enqueued(app, welcome, status="any")
    assert "(it is succeeded already)" in message_of(lambda: assert_enqueued(app, welcome))


def test_a_failure_shows_what_is_there_and_how_it_differs(app: Headway, welcome: Any) -> None:
    with held(app, datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)):
        welcome.enqueue(8)
        welcome.using(queue="slow", delay="1h", tenant="acme").enqueue(7)
        text = message_of(lambda: assert_enqueued(app, welcome, payload={"user_id": 7}, queue="mail"))
    assert text == (
        "expected a job of kind \"welcome\" with payload={'user_id': 7}, queue='mail' to be enqueued, and none is.\n"
        "There are:\n"
        '  welcome {"user_id":8}, queued in queue mail  (payload.user_id is 8)\n'
        '  welcome {"user_id":7}, scheduled for 2031-01-02T04:04:05+00:00 in queue slow of tenant acme'
        "  (queue is 'slow')"
    )


def test_a_wrong_count_says_how_many_there_are(app: Headway, welcome: Any) -> None:
    assert message_of(lambda: assert_enqueued(app, welcome, count=1)).endswith("There is no job at all.")
    app.enqueue_many(welcome.build(n) for n in range(12))
    text = message_of(lambda: assert_enqueued(app, welcome, count=11))
    assert text.startswith('expected 11 jobs of kind "welcome" to be enqueued, and 12 are.\n')
    assert text.endswith("and 2 older")
    text = message_of(lambda: assert_enqueued(app, "farewell"))
    assert "There are none of that kind; of others there are:\n  welcome" in text
    assert "payload.order is None" not in text


def test_a_refutation_shows_what_it_found(app: Headway, welcome: Any) -> None:
    welcome.enqueue(7)
    text = message_of(lambda: refute_enqueued(app, welcome, payload={"user_id": 7}))
    assert text == (
        "expected no job of kind \"welcome\" with payload={'user_id': 7} to be enqueued, and 1 is:\n"
        '  welcome {"user_id":7}, queued in queue mail'
    )


def test_a_tenant_is_asked_for_its_own(app: Headway, welcome: Any) -> None:
    app.tenant("acme").enqueue("welcome", {"user_id": 7})
    assert_enqueued(app.tenant("acme"), welcome, count=1)
    refute_enqueued(app.tenant("other"), welcome)


def test_filters_that_do_not_exist_are_refused(app: Headway) -> None:
    with pytest.raises(InvalidJob, match="did you mean payload"):
        assert_enqueued(app, paylod={})
    with pytest.raises(InvalidJob, match="status='done' does not exist"):
        refute_enqueued(app, status="done")
