"""Which queues a worker serves: names, patterns, slots, order; and what an operator changes of it."""

from __future__ import annotations

import pytest

from headway.errors import ConfigError, InvalidJob
from headway.model.served import Entry, Served, served, served_change


def matched(serves: Served, *existing: str) -> dict[str, str]:
    return {queue: entry.pattern for queue, entry in serves.resolved(existing).items()}


def test_the_first_entry_that_matches_serves_a_queue() -> None:
    serves = served(["mail", "report-*", "*-slow", "*"], total=9)
    assert matched(serves, "report-eu", "report-slow", "x-slow", "other", "report-") == {
        "mail": "mail",
        "other": "*",
        "report-": "report-*",
        "report-eu": "report-*",
        "report-slow": "report-*",
        "x-slow": "*-slow",
    }
    assert matched(served(["*", "mail"], total=1), "mail") == {"mail": "*"}
    assert matched(served("a.*", total=1), "a.b", "axb", "b") == {"a.b": "a.*"}


def test_slots_and_weights_belong_to_entries() -> None:
    serves = served({"mail": 5, "report-*": 2}, total=None, order={"report-*": 3})
    assert serves == Served(entries=(Entry("mail", 5), Entry("report-*", 2, 3)), total=7, order="weights")
    assert served(["a", "b"], total=3, order="strict").order == "strict"


@pytest.mark.parametrize(
    ("queues", "options", "error", "words"),
    [
        ([], {}, ConfigError, "at least one queue"),
        (["a b"], {}, InvalidJob, "is not a valid name"),
        ({"a": 0}, {}, ConfigError, "queue a has 0 slots"),
        ({"a": True}, {}, ConfigError, "queue a has True slots"),
        (["a"], {"total": 0}, ConfigError, "concurrency=0 must be a whole number"),
        (["a"], {"order": "first"}, ConfigError, "order='first' is not known"),
        (["a"], {"order": {"b": 1}}, ConfigError, "a weight to b, which is none of the queues"),
        (["a"], {"order": {"a": 0}}, ConfigError, "gives a the weight 0"),
    ],
)
def test_what_makes_no_sense_is_refused(queues, options, error, words) -> None:
    with pytest.raises(error, match=words):
        served(queues, **{"total": 5, **options})


def test_an_operators_change_is_laid_over_what_a_worker_has() -> None:
    serves = served(["mail"], total=20, order="strict")
    assert serves.changed(served_change(total=5)) == served(["mail"], total=5, order="strict")
    assert serves.changed(served_change(queues="*")) == served("*", total=20, order="strict")
    assert serves.changed(served_change(queues={"a": 2, "b": 3})).total == 5
    weighed = serves.changed(served_change(queues=["a", "b"], order={"a": 2}))
    assert (weighed.order, [entry.weight for entry in weighed.entries]) == ("weights", [2, 1])
    with pytest.raises(ConfigError, match="weights belong to queues"):
        served_change(order={"a": 2})
