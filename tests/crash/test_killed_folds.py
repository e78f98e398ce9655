"""Numbers and errors are counted once, whatever is killed between an execution's end and the fold of its row."""

from __future__ import annotations

from tests.crash.crash_site import CrashSite
from tests.crash.killed_folds import MOST_STATEMENTS


def test_a_kill_before_or_within_a_fold_loses_nothing_and_counts_nothing_twice(site: CrashSite) -> None:
    process = site.fleet.script(program="killed_folds")
    assert process.ended(within=60) == 0, process.tail()
    ended = [subject.split(",") for subject in site.ledger.subjects("ended")]
    killed = [(verb, int(statements)) for verb, statements, code in ended if code == "-9"]
    assert {("fold_errors", 0), ("fold_errors", 1), ("fold_stats", 0)} <= set(killed)
    assert {code for *_, code in ended} == {"-9", "0"}, process.tail()  # the last ones have no more statements
    count = len(site.ledger.subjects("settled"))
    assert count == len(ended) == 2 * MOST_STATEMENTS
    for _folded in range(2):
        (group,) = site.app.errors()
        assert (group.count, group.dead) == (count, count)
        (day,) = site.app.stats("day", by="kind")
        assert (day.enqueued, day.started, day.succeeded, day.dead) == (2 * count, 2 * count, count, count)
        assert {job.id for job in site.app.jobs(error=group.fingerprint)} == set(site.ledger.subjects("settled"))
        ops = site.app.store.ops
        site.app.store.run(ops.fold_errors(limit=1_000))
        site.app.store.run(ops.fold_stats(limit=1_000))
