"""`headway trains` and `headway jobs move`, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.model.ids import new_id
from headway.model.train import Train

Cli = Any
Hand = Any
OnTerminal = Callable[..., list[str]]


def cars(app: Headway, train: str, count: int, **options: Any) -> list[str]:
    return [app.enqueue("sync", {"n": number}, train=train, **options).id for number in range(count)]


def on_hold(app: Headway, hand: Hand, train: str = "dest_1", waiting: int = 2) -> list[str]:
    """A train whose first car is dead, which holds it; gives the ids of all its cars."""
    ids = cars(app, train, waiting + 1, on_dead="hold", max_attempts=1)
    worker = hand()
    assert worker.claim() == ids[:1]
    worker.end(ids[0], "dead", "OSError: the disk is full\n  in sync()")
    return ids


def test_list_shows_length_head_age_and_what_blocks(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = on_hold(either, hand)
    other = cars(either, "dest_2", 1)
    result = cli("trains", "list")
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["TRAIN", "TENANT", "JOBS", "HEAD", "STATUS", "KIND", "AGE", "NOTE"]
    assert first.split()[:6] == ["dest_1", "default", "2", ids[1], "held", "sync"]
    assert first.endswith(": a job is dead")
    assert "on hold " in first
    assert second.split()[:6] == ["dest_2", "default", "1", other[0], "queued", "sync"]
    assert "to see why, and what to do: headway trains show dest_1" in result.stderr
    assert len(cli.ok("trains").splitlines()) == 3
    found = cli.json("trains", "list")
    assert set(found[0]) == {*Train.__struct_fields__, "blocked"}
    assert [(train["train"], train["blocked"]) for train in found] == [("dest_1", True), ("dest_2", False)]
    assert found[0]["hold"]["job_id"] == ids[0]
    assert [train["train"] for train in cli.json("trains", "list", "--blocked")] == ["dest_1"]


def test_list_of_one_tenant_names_it_in_the_command(cli: Cli, either: Headway) -> None:
    cars(either, "dest_1", 1)
    cars(either, "dest_1", 2, tenant="acme")
    either.tenant("acme").hold_train("dest_1", actor="ada")
    assert [train["tenant"] for train in cli.json("trains", "list", "--tenant", "acme")] == ["acme"]
    result = cli("trains", "list", "--tenant", "acme")
    assert ": by ada" in result.stdout
    assert "headway trains show dest_1 --tenant acme" in result.stderr
    result = cli("trains", "list", "--tenant", "nobody", "--blocked")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert result.stderr.startswith("no train of tenant nobody on hold in ")


@pytest.mark.parametrize("limit", ["1", "2", "3", "4", "50"])
def test_pages_follow_each_other_by_the_printed_command(cli: Cli, either: Headway, limit: str) -> None:
    for train, tenant in (("a", "acme"), ("b", "acme"), ("b", "default"), ("b", "zoo"), ("c d", "acme"), ("e", "zoo")):
        cars(either, train, 1, tenant=tenant)
    seen: list[tuple[str, str]] = []
    flags = ["--limit", limit]
    while flags:
        seen += [(train["train"], train["tenant"]) for train in cli.json("trains", "list", *flags)]
        said = cli("trains", "list", *flags).stderr
        flags = ["--limit", limit, "--after", said.split("--after ")[1].strip().strip("'")] if said else []
    assert [name for name, _ in seen] == ["a", "b", "b", "b", "c d", "e"]
    assert len(set(seen)) == 6


@pytest.mark.parametrize("width", [80, 140])
def test_list_fits_the_terminal(either: Headway, on_terminal: OnTerminal, width: int) -> None:
    cars(either, "a_destination_with_a_name_that_does_not_fit_anywhere_" * 3, 1)
    cars(either, "dest_1", 1)
    either.hold_train("dest_1", reason="the disk is full, and somebody has to go there with another one")
    lines = on_terminal(width, "trains", "list")
    table = lines[:3]
    assert max(map(len, table)) <= width
    assert ("HEAD" in table[0]) == (width == 140)
    assert "on hold" in table[2]


def test_show_says_why_it_stands_and_both_ways_out(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = on_hold(either, hand)
    page = cli.ok("trains", "show", "dest_1")
    assert page.startswith("dest_1  on hold  2 jobs\n")
    assert f"job {ids[0]} (sync) is dead: OSError: the disk is full\n" in page
    assert f"headway jobs retry {ids[0]}\n" in page
    assert "headway trains resume dest_1\n" in page
    rows = [line.split()[:4] for line in page.splitlines()[-2:]]
    assert rows == [["1", ids[1], "held", "sync"], ["2", ids[2], "held", "sync"]]
    found = cli.json("trains", "show", "dest_1")
    assert [car["id"] for car in found["cars"]] == ids[1:]
    assert found["blocked"] is True


def test_retry_of_the_head_lets_the_train_go_on_with_it(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = on_hold(either, hand)
    assert cli.json("jobs", "retry", ids[0])[0]["runs_as"] == ids[0]
    assert cli.json("trains", "list")[0]["blocked"] is False
    worker = hand()
    assert worker.claim() == ids[:1]
    worker.end(ids[0])
    assert worker.claim() == ids[1:2]


def test_a_retried_job_whose_turn_it_is_not_is_held(cli: Cli, either: Headway) -> None:
    ids = cars(either, "dest_1", 2)
    either.cancel(ids[1])
    assert cli.ok("jobs", "retry", ids[1]) == f"{ids[1]}  held until its turn comes\n"


def test_show_cuts_long_trains_and_says_so(cli: Cli, either: Headway) -> None:
    ids = cars(either, "dest_1", 5)
    result = cli("trains", "show", "dest_1", "--limit", "2")
    assert [line.split()[1] for line in result.stdout.splitlines()[-2:]] == ids[:2]
    assert result.stderr == "3 more: add --limit 5\n"


def test_show_of_a_head_that_waits_for_others(cli: Cli, either: Headway) -> None:
    first = either.enqueue("other", {}, queue="elsewhere")
    (head,) = cars(either, "dest_1", 1, after=first.id)
    page = cli.ok("trains", "show", "dest_1")
    assert page.startswith("dest_1  open  1 job\n")
    assert f"its head waits for other jobs: headway jobs why {head}" in page
    assert "waits for other jobs" in cli.ok("trains", "list")


def test_hold_and_resume(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = cars(either, "dest_1", 2)
    said = cli.ok("trains", "hold", "dest_1", "--reason", "moving the disk")
    assert said == f"dest_1: on hold; job {ids[0]} (queued) may finish\n"
    assert cli.ok("trains", "hold", "dest_1").startswith("dest_1: was on hold already, since ")
    page = cli.ok("trains", "show", "dest_1")
    assert "moving the disk" in page
    assert " by ada@" in page
    assert "headway jobs retry" not in page
    worker = hand()
    assert worker.claim() == ids[:1]
    worker.end(ids[0])
    assert worker.claim() == []
    assert cli.ok("trains", "resume", "dest_1") == f"dest_1: resumed, next is job {ids[1]}\n"
    assert worker.claim() == ids[1:]
    assert cli.ok("trains", "resume", "dest_1") == "dest_1: was not on hold\n"


def test_hold_and_resume_of_several_as_json(cli: Cli, either: Headway) -> None:
    cars(either, "dest_1", 1)
    held = cli.json("trains", "hold", "dest_1", "dest_2")
    assert [(train["train"], train["blocked"], train["length"]) for train in held] == [
        ("dest_1", True, 1),
        ("dest_2", True, 0),
    ]
    going = cli.json("trains", "resume", "dest_1", "dest_2")
    assert [(train["train"], train["blocked"], train["length"]) for train in going] == [
        ("dest_1", False, 1),
        ("dest_2", False, 0),
    ]


def test_an_empty_train_can_be_held(cli: Cli, either: Headway) -> None:
    result = cli("trains", "hold", "soon")
    assert result.stdout == "soon: on hold\n"
    assert "nothing of it waits yet" in result.stderr
    assert either.enqueue("sync", {}, train="soon").status == "held"
    assert cli.ok("trains", "show", "soon").startswith("soon  on hold  1 job\n")
    cli.ok("trains", "clear", "soon", "--yes")
    cli.ok("trains", "hold", "soon")
    assert cli.ok("trains", "resume", "soon") == "soon: resumed, and empty\n"


def test_a_train_of_another_tenant_is_pointed_out(cli: Cli, either: Headway) -> None:
    ids = cars(either, "dest_1", 2, tenant="acme")
    hint = "tenant acme has: headway trains {} dest_1 --tenant acme"
    for verb in ("show", "clear"):
        assert hint.format(verb) in cli.refused("trains", verb, "dest_1", code=1)
    assert hint.format("resume") in cli("trains", "resume", "dest_1").stderr
    assert "headway trains list shows which there are" in cli.refused("trains", "show", "dest_9", code=1)
    page = cli.ok("trains", "show", "dest_1", "--tenant", "acme")
    assert page.startswith("dest_1 of tenant acme  open  2 jobs\n")
    cli.ok("trains", "hold", "dest_1", "--tenant", "acme")
    assert "headway trains resume dest_1 --tenant acme" in cli.ok("trains", "show", "dest_1", "--tenant", "acme")
    assert cli.ok("trains", "resume", "dest_1", "--tenant", "acme") == f"dest_1: resumed, next is job {ids[0]}\n"


def test_the_tenant_of_the_settings_is_meant(cli: Cli, either: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    cars(either, "dest_1", 2, tenant="acme")
    monkeypatch.setenv("HEADWAY_TENANT", "acme")
    assert cli.json("trains", "show", "dest_1")["tenant"] == "acme"
    assert cli.json("trains", "hold", "dest_1")[0]["tenant"] == "acme"
    assert "headway trains resume dest_1\n" in cli.ok("trains", "show", "dest_1")
    cars(either, "dest_1", 1)
    either.hold_train("dest_1")
    assert "trains resume dest_1 --tenant default\n" in cli.ok("trains", "show", "dest_1", "--tenant", "default")


def test_skip_takes_a_car_out(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = on_hold(either, hand, waiting=3)
    assert cli.ok("trains", "skip", ids[1]) == f"job {ids[1]} is canceled, train dest_1 is still on hold\n"
    assert cli.ok("trains", "skip", ids[0]) == f"job {ids[0]} is dead, train dest_1 continues without it\n"
    assert cli.json("trains", "skip", ids[2]) == {
        "id": ids[2], "status": "canceled", "train": "dest_1", "tenant": "default", "blocked": False,
    }  # fmt: skip
    worker = hand()
    assert worker.claim() == ids[3:]
    assert "is running" in cli.refused("trains", "skip", ids[3], code=1)
    assert "no car of a train" in cli.refused("trains", "skip", either.enqueue("sync", {}).id, code=1)
    assert "there is no job" in cli.refused("trains", "skip", new_id(), code=1)
    assert either.audit(ids[0])[-1].actor is not None


def test_clear_needs_a_yes_and_counts(cli: Cli, either: Headway, hand: Hand) -> None:
    ids = cars(either, "dest_1", 4)
    assert hand().claim() == ids[:1]
    either.hold_train("dest_1")
    said = cli.refused("trains", "clear", "dest_1", code=2)
    assert "this would cancel 3 jobs of train dest_1, and there is no terminal to ask: add --yes" in said
    assert cli.ok("trains", "clear", "dest_1", "--yes") == (
        f"dest_1: 3 jobs canceled; its hold is over; job {ids[0]} is running and continues\n"
    )
    assert [either.get(job_id).status for job_id in ids] == ["running", "canceled", "canceled", "canceled"]
    assert cli.json("trains", "clear", "dest_1") == {"train": "dest_1", "tenant": "default", "canceled": []}
    cars(either, "dest_2", 2)
    assert len(cli.json("trains", "clear", "dest_2", "--yes")["canceled"]) == 2


@pytest.mark.parametrize(("answer", "code", "counts"), [("n", 1, {"queued": 1, "held": 2}), ("y", 0, {"canceled": 3})])
def test_on_a_terminal_clear_asks_first(
    answered: Any, app: Headway, answer: str, code: int, counts: dict[str, int]
) -> None:
    cars(app, "dest_1", 3)
    found, out, err = answered("trains", "clear", "dest_1", answer=answer)
    assert found == code
    assert "cancel 3 jobs of train dest_1? [y/N]" in err
    assert out == ("" if code else "dest_1: 3 jobs canceled\n")
    assert app.counts() == counts


def test_move_of_a_car(cli: Cli, either: Headway) -> None:
    ids = cars(either, "dest_1", 4)
    assert cli.ok("jobs", "move", ids[3], "--first") == f"job {ids[3]} moved: 1 job before it in train dest_1\n"
    moved = cli.json("jobs", "move", ids[3], "--after", ids[1])
    assert (moved["job_id"], moved["train"], moved["ahead"]) == (ids[3], "dest_1", 2)
    cli.ok("jobs", "move", ids[2], "--before", ids[1])
    assert [car["id"] for car in cli.json("trains", "show", "dest_1")["cars"]] == [ids[0], ids[2], ids[1], ids[3]]
    assert cli.json("jobs", "move", ids[2], "--last")["ahead"] == 3
    assert "cannot be moved" in cli.refused("jobs", "move", ids[0], "--last", code=1)


def test_move_in_a_queue(cli: Cli, either: Headway) -> None:
    ids = [either.enqueue("bill", {}, priority=priority).id for priority in (1, 100, 100)]
    said = cli.ok("jobs", "move", ids[2], "--first")
    assert said == f"job {ids[2]} moved: it is next in queue default, with priority 1\n"
    assert cli.json("jobs", "move", ids[0], "--last")["priority"] == 100
    assert [entry["action"] for entry in cli.json("jobs", "show", ids[0])["audit"]] == ["move"]


@pytest.mark.parametrize("flags", [(), ("--first", "--last"), ("--before", new_id(), "--first")])
def test_move_needs_one_place(cli: Cli, app: Headway, flags: tuple[str, ...]) -> None:
    made = app.enqueue("bill", {})
    assert "where to? Give one of --before ID" in cli.refused("jobs", "move", made.id, *flags, code=2)


def test_jobs_say_what_they_wait_for(cli: Cli, either: Headway) -> None:
    ids = cars(either, "dest_1", 3, on_dead="hold", on_canceled="hold")
    later = either.enqueue("bill", {}, after=ids[:2])
    rows = {line.split()[0]: line for line in cli.ok("jobs", "list").splitlines()}
    assert rows[ids[2]].endswith("held: in train dest_1")
    assert rows[later.id].endswith("held: waits for other jobs")
    assert "  train          dest_1, place 3; on dead: hold; on canceled: hold\n" in cli.ok("jobs", "show", ids[2])
    assert "  train          dest_1, the locomotive;" in cli.ok("jobs", "show", ids[0])
    page = cli.ok("jobs", "show", later.id)
    assert "  waits for      2 jobs: " in page
    assert f"{ids[0]} (queued)" in page
    assert f"{ids[1]} (held)" in page
    awaits = cli.json("jobs", "show", later.id)["awaits"]
    assert {each["id"]: each["status"] for each in awaits} == {ids[0]: "queued", ids[1]: "held"}
    assert cli.json("jobs", "show", ids[0])["awaits"] == []


def test_a_name_cannot_drive_the_terminal(cli: Cli, either: Headway) -> None:
    name = "\x1b]0;gotcha\x07"
    cars(either, name, 2)
    either.hold_train(name, reason="\x1b[2J")
    for page in (cli.ok("trains", "list"), cli.ok("trains", "show", name), cli("doctor").stdout):
        assert "gotcha" in page
        assert "\x1b" not in page
        assert "\x07" not in page
