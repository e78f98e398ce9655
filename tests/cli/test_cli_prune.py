"""`headway prune`: what is old, counted and deleted, on both stores."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigError

Cli = Any

NAMES = ["succeeded", "canceled", "failed", "dead", "events", "failed_events", "fires", "audit"]
NAMES += ["stats_minutes", "stats_hours", "stats_days", "errors"]


@pytest.fixture
def ended(either: Headway, hand: Any) -> dict[str, str]:
    """One job of each end, and one that waits."""
    worker = hand()
    ids = {to: either.enqueue("welcome").id for to in ("succeeded", "dead", "canceled")}
    ids["queued"] = either.enqueue("welcome", delay="1h").id
    either.cancel(ids["canceled"])
    worker.claim()
    worker.end(ids["succeeded"])
    worker.end(ids["dead"], "dead", "no")
    older_than_a_millisecond()
    return ids


def older_than_a_millisecond() -> None:
    """The youngest age that prune takes; on a fast machine a job ends and is asked about in less."""
    time.sleep(0.002)


def left(app: Headway) -> dict[str, int]:
    return dict(app.counts())


def test_it_counts_asks_and_deletes(cli: Cli, either: Headway, ended: dict[str, str]) -> None:
    assert cli.json("prune", "--dry-run") == {"dry_run": True, "pruned": dict.fromkeys(NAMES, 0)}
    assert cli.json("prune")["pruned"] == dict.fromkeys(NAMES, 0)  # by the retention there is nothing
    young = ("prune", "--only", "succeeded", "--only", "canceled", "--older-than", "0.001")
    assert cli.json(*young, "--dry-run")["pruned"] == {"succeeded": 1, "canceled": 1}
    assert "delete 2 rows" in cli.refused(*young, code=2)  # there is no terminal to ask
    assert left(either) == {"succeeded": 1, "canceled": 1, "dead": 1, "scheduled": 1}
    assert cli.json(*young, "--yes") == {"dry_run": False, "pruned": {"succeeded": 1, "canceled": 1}}
    assert left(either) == {"dead": 1, "scheduled": 1}
    assert "dead" in cli.ok("prune", "--dry-run")


def test_an_app_prunes_by_its_retention_or_by_another(either: Headway, ended: dict[str, str]) -> None:
    assert either.prunable() == dict.fromkeys(NAMES, 0)
    assert either.prune({"dead": 0.001}) == {"dead": 1}
    own = Headway(either.url, retention={"succeeded": 0.001})
    assert asyncio.run(own.aprunable())["succeeded"] == 1
    assert asyncio.run(own.aprune()) == dict.fromkeys(NAMES, 0) | {"succeeded": 1}
    own.close()
    assert left(either) == {"canceled": 1, "scheduled": 1}
    with pytest.raises(ConfigError, match="must map succeeded"):
        either.prune({"queued": "1d"})


def test_a_kind_and_a_queue_keep_their_jobs_as_long_as_they_say(cli: Cli, either: Headway, hand: Any) -> None:
    @either.job(retention={"succeeded": "forever"})
    def receipt() -> None: ...

    @either.job
    def note() -> None: ...

    cli.ok("queues", "set", "slow", "--retention", "succeeded=forever,dead=1d")
    (queue,) = cli.json("queues")
    assert (queue["name"], queue["retention"]["dead"]) == ("slow", 86_400_000)
    for kind in (receipt, note, note.using(queue="slow")):
        kind.enqueue()
    either.run(["default", "slow"], until_idle=True)  # it declares what the code says
    older_than_a_millisecond()
    assert either.prunable({"succeeded": 0.001}) == either.prune({"succeeded": 0.001}) == {"succeeded": 1}
    assert cli.ok("queues", "set", "slow", "--retention", "none").endswith("in turn\n")
    assert either.prune({"succeeded": 0.001}) == {"succeeded": 1}
    assert [job.kind for job in either.jobs()] == ["receipt"]
    assert "must be one duration, or map some of" in cli.refused(
        "queues", "set", "slow", "--retention", "late=1d", code=2
    )
    forever = Headway(either.url, retention={"succeeded": "forever"})
    assert forever.prune()["succeeded"] == 0
    forever.close()
