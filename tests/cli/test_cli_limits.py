"""`headway limits` and `headway queues set`, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway

Cli = Any
Hand = Any
OnTerminal = Callable[..., list[str]]


def test_limits_are_set_and_taken_back_one_by_one(cli: Cli, either: Headway) -> None:
    said = cli.ok("limits", "set", "--kind", "welcome", "--max-running", "3", "--rate", "100/min", "--burst", "10")
    assert said == "kind welcome: at most 3 jobs at once; rate 100/min, burst 10\n"
    limit = cli.json("limits", "set", "--kind", "welcome", "--rate", "none")
    assert (limit["max_running"], limit["rate_count"], limit["rate_burst"]) == (3, None, None)
    assert cli.ok("limits", "set", "--kind", "welcome", "--max-running", "none") == "kind welcome: no limit\n"
    assert either.limits() == []
    assert cli.ok("limits", "set", "--queue", "gpu", "--max-running", "0") == "queue gpu: no job may run\n"
    assert cli.ok("limits", "set", "--tenant", "*", "--max-pending", "10000") == (
        "every tenant without limits of its own: at most 10,000 jobs may wait\n"
    )


def test_limits_are_listed_with_what_runs_and_waits(cli: Cli, either: Headway, hand: Hand) -> None:
    assert cli("limits").stderr.startswith("no limits are set in ")
    for _ in range(3):
        either.enqueue("welcome", {"user_id": 7}, tenant="acme")
    for flags in (
        ("--kind", "welcome", "--max-running", "2"),
        ("--queue", "default", "--max-running", "9"),
        ("--tenant", "acme", "--max-running", "7", "--max-pending", "1000"),
        ("--tenant", "*", "--max-running", "5"),
    ):
        cli.ok("limits", "set", *flags)
    assert len(hand().claim()) == 2
    head, *rows = [line.split("  ") for line in cli.ok("limits", "list").splitlines()]
    assert [title.strip() for title in head if title] == [
        "SCOPE", "NAME", "RUNNING", "MAX RUNNING", "RATE", "QUOTAS", "LIMITED",
    ]  # fmt: skip
    cells = [[cell.strip() for cell in row if cell] for row in rows]
    assert cells[:2] + sorted(cells[2:]) == [
        ["kind", "welcome", "2", "2", "–", "–", "1"],
        ["queue", "default", "2", "9", "–", "–", "–"],
        ["tenant", "*", "–", "5", "–", "–", "–"],
        ["tenant", "acme", "2", "7", "–", "max_pending 1,000", "0"],
    ]
    kind = cli.json("limits")[0]
    assert (kind["scope"], kind["name"], kind["running"], kind["limited"]) == ("kind", "welcome", 2, 1)
    assert {limit["tenant"] for limit in cli.json("limits") if limit["scope"] == "tenant"} == {"acme", None}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--max-running", "1"), "whose limit? Give one of --queue, --kind and --tenant"),
        (("--kind", "a", "--queue", "b", "--max-running", "1"), "whose limit?"),
        (("--kind", "a"), "which limit? Give some of --max-running"),
        (("--kind", "a", "--max-pending", "1"), "--max-pending is a limit of tenants, not of a kind: give --tenant"),
        (("--queue", "a", "--rate", "1/s"), "--rate is a limit of kinds, not of a queue: give --kind"),
        (("--kind", "a", "--max-running", "-1"), "'-1' is not a count: write a whole number from 0, or none"),
        (("--kind", "a", "--rate", "soon"), "'soon' is not a rate: write 100/min, 10/s, 5/2h or 1000/day, or none"),
        (("--kind", "a", "--burst", "5"), "burst=5 means nothing without rate"),
        (("--kind", "a b", "--max-running", "5"), "is not a valid name"),
    ],
)
def test_limits_refuse_what_cannot_be(cli: Cli, app: Headway, flags: tuple[str, ...], message: str) -> None:
    app.counts()
    assert message in cli.refused("limits", "set", *flags, code=2)


def test_queues_are_set(cli: Cli, either: Headway) -> None:
    either.enqueue("welcome", {"user_id": 7}, queue="mail")
    said = cli.ok("queues", "set", "mail", "--max-running", "5", "--fair")
    assert said == "mail: at most 5 jobs at once, tenants in turn\n"
    queue = cli.json("queues", "set", "mail", "--max-running", "none")
    assert (queue["name"], queue["max_running"], queue["fair"]) == ("mail", None, True)
    said = cli.ok("queues", "set", "mail", "--no-fair")
    assert said == "mail: any number of jobs at once, tenants as they come\n"
    assert "what to set?" in cli.refused("queues", "set", "mail", code=2)
    unused = cli.json("queues", "set", "later", "--max-running", "2")
    assert (unused["name"], unused["max_running"]) == ("later", 2)


def test_queues_show_limits_fairness_and_reservations(
    cli: Cli, either: Headway, hand: Hand, on_terminal: OnTerminal
) -> None:
    for _ in range(3):
        either.enqueue("welcome", {}, queue="mail", partition="order:42")
    cli.ok("queues", "set", "mail", "--max-running", "5", "--no-fair")
    assert len(hand("mail").claim()) == 1
    titles, row = cli.ok("queues").splitlines()
    cells = dict(zip(titles.split(), row.replace("open, not fair", "open,unfair").split(), strict=False))
    assert (cells["STATE"], cells["QUEUED"], cells["LIMITED"], cells["RUNNING"]) == ("open,unfair", "2", "2", "1/5")
    with either.reserve("mail", holder="ada's shell"):
        assert "reserved by ada's shell for 9m" in cli.ok("queues")
        for width in (80, 140):
            lines = on_terminal(width, "queues")
            assert max(map(len, lines)) <= width
            assert "LIMITED" in lines[0]
            assert "1/5" in lines[1]


def test_a_limited_job_says_what_it_waits_for(cli: Cli, either: Headway, hand: Hand) -> None:
    either.limit(tenant="acme", max_running=0)
    either.limit(kind="shut", max_running=0)
    made = {
        "partition order:42 is busy": [either.enqueue("a", {}, partition="order:42").id for _ in range(2)][1],
        "concurrency 1 of key c": [either.enqueue("b", {}, concurrency=1, concurrency_key="c").id for _ in range(2)][1],
        "max running of kind shut": either.enqueue("shut", {}).id,
        "max running of tenant acme": either.enqueue("d", {}, tenant="acme").id,
        "rate of kind e": [either.enqueue("e", {}, rate="1/h").id for _ in range(2)][1],
        "rate of key r": [either.enqueue("f", {}, rate="1/h", rate_key="r").id for _ in range(2)][1],
    }
    hand().claim()
    rows = {line.split()[0]: line for line in cli.ok("jobs", "list").splitlines()}
    for words, job_id in made.items():
        assert rows[job_id].endswith(f"limited: {words}")
        assert f"  limited        {words}\n" in cli.ok("jobs", "show", job_id)


def test_show_has_the_limits_that_a_job_carries(cli: Cli, either: Headway) -> None:
    made = either.enqueue(
        "welcome", {}, partition="order:42", concurrency=3, concurrency_key="c42", rate="100/min", burst=10
    )
    page = cli.ok("jobs", "show", made.id)
    assert "  partition      order:42\n" in page
    assert "  concurrency    3 at once of key c42\n" in page
    assert "  rate           100/min, burst 10 of kind welcome\n" in page
