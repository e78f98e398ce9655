"""Eight senders, many machines, workers killed: every signal is consumed exactly once, by the ledger."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import KilledWorkers
from tests.crash.ordered_jobs import Collector
from tests.crash.processes import Process, until

SENDERS = 8
WORKERS = 3
PAUSE_S = 0.3  # a new worker needs some time to begin


def test_no_signal_is_lost_or_doubled_while_workers_are_killed(site: CrashSite, request: pytest.FixtureRequest) -> None:
    app = site.app
    kills = request.config.getoption("--crash-kills")
    signals = 5 * request.config.getoption("--crash-jobs")
    machines = max(20, signals // 100)
    patience_s = 60 + signals / 50
    jobs = app.enqueue_many(Collector.kind().using(unique_key=f"c{n}").build() for n in range(machines))
    workers = KilledWorkers(site, WORKERS)
    # they take as long as the killing does
    senders = [
        site.fleet.script(
            "signals", f"s{number}", str(signals // SENDERS), f"{kills * PAUSE_S}", program="ordered_jobs"
        )
        for number in range(SENDERS)
    ]
    for kill in range(1, kills + 1):
        share = signals * kill // (kills + 1) // 2  # some are undone, and counted as sent by their sender alone
        until(lambda share=share: _sent(site) >= share or not _any_runs(senders), "signals are sent", within=patience_s)
        workers.kill_any()
    for sender in senders:
        assert sender.ended(within=patience_s) == 0, sender.tail()
    app.signal_many(app.build_signal(job.id, "end") for job in jobs)
    workers.until_over(within=patience_s)

    sent = defaultdict(list)
    for text in _texts(site):
        sent[text.partition("/")[0]].append(text)
    assert sum(map(len, sent.values())) > signals // 2
    for number, job in enumerate(jobs):
        done = app.get(job.id)
        assert done.status == "succeeded", done.error
        assert sorted(done.result) == sorted(sent[f"c{number}"])
        assert {signal.status for signal in app.signals(job.id)} == {"consumed"}
        for sender in range(SENDERS):
            of_one = [int(text.rpartition(".")[2]) for text in done.result if f"/s{sender}." in text]
            assert of_one == sorted(of_one), "one sender's signals came in another order"


def _texts(site: CrashSite) -> list[str]:
    return [text for subject in site.ledger.subjects("sent") for text in subject.split(",")]


def _sent(site: CrashSite) -> int:
    return len(_texts(site))


def _any_runs(senders: list[Process]) -> bool:
    return any(sender.code is None for sender in senders)
