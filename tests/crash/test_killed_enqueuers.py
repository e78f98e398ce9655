"""An enqueuer killed in the midst of its batches: what was acknowledged is there, and no batch is there in part."""

from __future__ import annotations

import random
import time

import pytest

from tests.crash.crash_site import CrashSite
from tests.crash.processes import until

SIZE = 1_500


def test_a_killed_enqueuer_leaves_whole_batches_or_nothing(site: CrashSite, request: pytest.FixtureRequest) -> None:
    kills = max(3, request.config.getoption("--crash-kills") // 2)
    ledger = site.ledger
    for number in range(kills):
        enqueuer = site.fleet.script("enqueue", f"e{number}", str(SIZE))
        begun = f"e{number}-{1 + number % 3}"
        until(lambda begun=begun: begun in ledger.subjects("begin"), "a batch is on its way")
        time.sleep(random.uniform(0, 0.04))  # somewhere in it
        enqueuer.kill()
    sizes = site.rows.sizes()
    begun_batches, acknowledged = set(ledger.subjects("begin")), set(ledger.subjects("acknowledged"))
    assert len(acknowledged) >= kills
    assert sizes.keys() <= begun_batches
    assert set(sizes.values()) == {SIZE}
    assert acknowledged <= sizes.keys()
    assert ledger.subjects("refused") == []
    site.rows.check()
