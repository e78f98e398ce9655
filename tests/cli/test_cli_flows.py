"""`headway flows`, on both stores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from headway import Done, Flow, Headway, Machine, step
from headway.model.job import Job
from headway.testing import drain

Cli = Any


class Shop:
    def __init__(self, app: Headway) -> None:
        self.app = app
        self.second: Callable[[], str] = charge
        self.ran: list[str] = []

        @app.job(queue="packing")
        def pack(order: int) -> str:
            return f"parcel {order}"

        @app.machine
        class Other(Machine, queue="orders"):
            @step
            def start(self, ctx: Any) -> Done:
                return Done()

        def reserve(order: int) -> dict[str, Any]:
            self.ran.append("reserve")
            return {"order": order, "note": "é\x1b[2J"}

        @app.flow(queue="orders", max_attempts=1, version=2, since=1)
        async def checkout(flow: Flow, order: int) -> Any:
            stock = await flow.step(reserve, order)
            paid = await flow.step(self.second)
            told = await flow.receive("payment", timeout="3d")
            return [stock, paid, told, await flow.call(pack, order=order)]

        self.flow = checkout
        Other.enqueue()

    def waiting(self, **options: Any) -> str:
        job = self.flow.using(**options).enqueue(order=4)
        drain(self.app, "orders")
        return job.id


def charge() -> str:
    return "ch_1"


def tax() -> str:
    raise ValueError("no tax\nhere")


@pytest.fixture
def shop(either: Headway) -> Shop:
    return Shop(either)


def test_list_says_what_each_waits_for(cli: Cli, either: Headway, shop: Shop) -> None:
    first, second = shop.waiting(), shop.waiting(unique_key="order:2")
    either.signal(second, "payment", 1)
    drain(either, "orders")
    found = cli.json("flows", "list")
    assert [each["id"] for each in found] == [second, first]
    assert set(found[0]) == set(Job.__struct_fields__)
    lines = cli.ok("flows").splitlines()
    assert lines[0].split() == [
        "ID",
        "STATUS",
        "FLOW",
        "VERSION",
        "WAITS",
        "FOR",
        "UNTIL",
        "QUEUE",
        "KEY",
        "TENANT",
        "SINCE",
    ]
    assert re.match(
        rf"{second}  waiting  checkout +2  jobs +orders  order:2  default +\d", re.sub(r"in 2d 23h", "", lines[1])
    )
    assert re.match(rf"{first}  waiting  checkout +2  payment +in 2d 23h  orders +default +\d", lines[2])
    assert [each["id"] for each in cli.json("flows", "list", "--awaits", "payment")] == [first]
    assert [each["id"] for each in cli.json("flows", "list", "--limit", "1", "--before", second)] == [first]
    assert {each["kind"] for each in cli.json("machines", "list")} == {"other"}
    assert "$" not in cli.ok("jobs", "list", "--status", "waiting")
    assert "no flows for --kind none" in cli("flows", "list", "--kind", "none").stderr


def test_show_has_what_was_recorded_and_what_is_awaited(cli: Cli, either: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    page = cli.ok("flows", "show", job_id)
    assert page.startswith(f"checkout version 2  waiting  {job_id}\n")
    assert "  queue          orders\n" in page
    assert "\nnow\n  it waits for signal payment since " in page
    rows = [line.split() for line in page.partition("\njournal\n")[2].splitlines()]
    assert rows[0] == ["ROW", "PLACE", "WHAT", "TRIES", "TOOK", "RECORDED", "VALUE"]
    assert rows[1][1:4] == ["reserve", "done", "1"]
    assert '{"order": 4, "note": "é\\u001b[2J"}' in page
    assert rows[2][1:4] == ["charge", "done", "1"]
    assert len(rows) == 3
    assert "due" in cli.ok("flows", "show", job_id, "--all")
    assert "1 earlier: add --limit 2" in cli.ok("flows", "show", job_id, "--limit", "1")
    shown = cli.json("flows", "show", job_id)
    assert [(row["place"], row["kind"]) for row in shown["journal"]] == [
        ("reserve", "done"),
        ("charge", "done"),
        ("receive:payment", "due"),
    ]
    assert shown["why"][0].startswith("it waits for signal payment")
    either.signal(job_id, "payment", {"amount": 3})
    drain(either)
    drain(either)
    page = cli.ok("flows", "show", job_id)
    assert "\nend\n  it succeeded at " in page
    assert re.search(r"receive:payment +signal .*\{\"amount\": 3\}", page)
    assert re.search(r"call:pack +succeeded .*\"parcel 4\"", page)
    assert '\nresult\n  [{"order": 4' in page


def test_show_of_a_failure_has_its_first_line(cli: Cli, either: Headway, shop: Shop) -> None:
    shop.second = tax
    job_id = shop.waiting()
    result = cli("flows", "show", job_id)
    assert re.search(r"tax +failed +1 .*ValueError: no tax\n", result.stdout)
    assert f"to run it again: headway jobs retry {job_id}" in result.stderr


def test_accept_takes_back_what_the_code_does_not_fit(cli: Cli, either: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    shop.second = tax
    either.signal(job_id, "payment", 1)
    drain(either, "orders")
    assert "it is set aside" in cli.ok("jobs", "why", job_id)
    assert "there is no terminal to ask: add --yes" in cli.refused("flows", "accept", job_id, code=2)
    charged = either.journal(job_id)[1].seq
    assert (
        cli.ok("flows", "accept", job_id, "--yes") == f"flow {job_id} goes on from row {charged}: 1 answer taken back\n"
    )
    assert either.get(job_id).status == "queued"
    assert re.search(r"charge +\(done\)", cli.ok("flows", "show", job_id, "--all"))
    assert "names no recorded answer" in cli.refused("flows", "accept", job_id, "--yes", code=1)
    again = cli.json("flows", "accept", job_id, "--from", "1", "--yes")
    assert again == {"id": job_id, "from_seq": 1, "status": "queued"}
    (entry,) = [each for each in either.audit(job_id) if each.action == "accept" and each.detail == "from 1"]
    assert (entry.actor or "").startswith("ada")


def test_fork_goes_on_before_an_operation(cli: Cli, either: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    result = cli("flows", "fork", job_id, "--before", "charge")
    made = result.stdout.strip()
    assert f"headway flows show {made}" in result.stderr
    assert either.get(made).forked_from == job_id
    drain(either, "orders")
    assert shop.ran == ["reserve"]
    due = either.journal(job_id)[-1].seq
    made = cli.json("flows", "fork", job_id, "--before", str(due), "--result", 'charge="ch_9"')["id"]
    assert [row.value for row in either.journal(made)][1] == "ch_9"
    assert "is not PLACE=JSON" in cli.refused("flows", "fork", job_id, "--before", "charge", "--result", "x", code=2)
    assert "has no operation 'nothing'" in cli.refused("flows", "fork", job_id, "--before", "nothing", code=1)


def test_export_prints_flows_as_lines(cli: Cli, either: Headway, shop: Shop) -> None:
    first, second = shop.waiting(), shop.waiting()
    (line,) = cli.ok("flows", "export", first).splitlines()
    found = json.loads(line)
    assert (found["headway_flow"], found["id"], found["kind"], found["version"]) == (1, first, "checkout", 2)
    assert found["payload"] == {"order": 4}
    done = next(row for row in found["rows"] if row["place"] == "charge")
    assert (done["kind"], done["value"], done["fence"]) == ("done", "ch_1", 1)
    assert isinstance(done["print"], int)
    both = [json.loads(line)["id"] for line in cli.ok("flows", "export", "--kind", "checkout").splitlines()]
    assert both == [first, second]
    assert "Give their ids, or --kind KIND" in cli.refused("flows", "export", code=2)


def test_cancel_now_undoes_nothing(cli: Cli, either: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    assert cli.json("jobs", "cancel", job_id, "--now")[0]["status"] == "canceled"


def test_a_job_s_page_says_that_it_is_a_flow(cli: Cli, either: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    result = cli("jobs", "show", job_id)
    assert "  flow           version 2, waits for payment\n" in result.stdout
    assert "  tries          0 of 1 failed\n" in result.stdout
    assert f"its journal: headway flows show {job_id}" in result.stderr
    assert f"it is a flow: headway flows show {job_id}" in cli("machines", "show", job_id).stderr


def test_only_flows_are_shown(cli: Cli, either: Headway) -> None:
    job = either.enqueue("plain")
    for words in (["show", job.id], ["export", job.id], ["accept", job.id, "--yes"]):
        assert "is not a flow" in cli.refused("flows", *words, code=1)
