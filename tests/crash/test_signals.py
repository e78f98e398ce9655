"""Eight senders, many machines, workers killed: every signal is consumed exactly once, by the ledger."""

from __future__ import annotations

from collections import defaultdict

import pytest
from conftest import Ground
from crew import Crew
from traffic import Collector

SENDERS = 8
WORKERS = 3


def test_no_signal_is_lost_or_doubled_while_workers_are_killed(ground: Ground, request: pytest.FixtureRequest) -> None:
    app = ground.app
    kills = request.config.getoption("--crash-kills")
    signals = 5 * request.config.getoption("--crash-jobs")
    machines = max(20, signals // 100)
    patience_s = 60 + signals / 50
    jobs = app.enqueue_many(Collector.kind().using(unique_key=f"c{n}").build() for n in range(machines))
    crew = Crew(ground, WORKERS)
    senders = [
        ground.fleet.script("signals", f"s{number}", str(signals // SENDERS), program="traffic.py")
        for number in range(SENDERS)
    ]
    # one execution consumes many: a worker is killed often, and before the senders are done
    crew.kill_some(kills, every=max(2, machines // 4), within=patience_s)
    for sender in senders:
        assert sender.ended(within=patience_s) == 0, sender.tail()
    app.signal_many(app.build_signal(job.id, "end") for job in jobs)
    crew.until_over(within=patience_s)

    sent = defaultdict(list)
    for subject in ground.ledger.subjects("sent"):
        for text in subject.split(","):
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
