"""`headway machines`, on both stores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway import Await, Done, Headway, Machine, Next, Sleep, Spawn, Stop, step
from headway.model.ids import new_id
from headway.model.job import Job
from headway.testing import drain

Cli = Any


@pytest.fixture
def checkout(either: Headway) -> type[Machine]:
    @either.job(max_attempts=1)
    def label(parcel: int) -> str:
        if parcel == 1:
            raise LookupError("no printer")
        return f"L{parcel}"

    @either.machine
    class Checkout(Machine, version=2, queue="checkout", max_attempts=2, backoff="1ms"):
        @step
        async def start(self, ctx: Any) -> Any:
            if ctx.state.get("flaky") and ctx.tries == 0:
                raise ValueError("no stock")
            return Await(["payment", "cancel"], then=self.paid, timeout="3d")

        @step
        async def paid(self, ctx: Any) -> Any:
            if ctx.signals[0].name == "cancel":
                return Stop("given up")
            return Next(self.pack, {**ctx.state, "paid": ctx.signals[0].payload})

        @step
        def pack(self, ctx: Any) -> Any:
            return Spawn([label.build(parcel=n) for n in range(ctx.state.get("parcels", 2))], then=self.rest)

        @step
        def rest(self, ctx: Any) -> Any:
            return Sleep("2h", then=self.end)

        @step
        def end(self, ctx: Any) -> Any:
            return Done(ctx.state["order"])

    return Checkout


def test_list_says_where_each_is_and_what_it_waits_for(
    cli: Cli, either: Headway, checkout: type[Machine], on_terminal: Callable[..., list[str]]
) -> None:
    either.enqueue("plain", queue="elsewhere")
    first, second = checkout.enqueue(order=1), checkout.using(unique_key="order:2").enqueue(order=2)
    drain(either, "checkout")
    either.signal(second.id, "payment", {"amount": 5})
    drain(either, "checkout")
    found = cli.json("machines", "list")
    assert [(each["id"], each["status"], each["step"]) for each in found] == [
        (second.id, "waiting", "rest"),
        (first.id, "waiting", "paid"),
    ]
    assert set(found[0]) == set(Job.__struct_fields__)
    lines = cli.ok("machines", "list").splitlines()
    assert " ".join(lines[0].split()) == "ID STATUS MACHINE VERSION STEP AWAITS UNTIL QUEUE KEY TENANT SINCE"
    assert re.match(rf"{second.id}  waiting  checkout +2  rest  children +checkout  order:2  default +\d", lines[1])
    assert re.match(
        rf"{first.id}  waiting  checkout +2  paid  payment or cancel +in 2d 23h  checkout +default", lines[2]
    )
    narrow = on_terminal(80, "machines", "list")
    assert max(map(len, narrow)) <= 80
    assert " ".join(narrow[0].split()) == "ID STATUS MACHINE STEP AWAITS SINCE"
    assert cli.ok("machines").splitlines()[0] == lines[0]


def test_steps_counts_where_machines_stand(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    assert cli.json("machines", "steps") == []
    either.enqueue("plain", queue="elsewhere")
    first, second, third = (checkout.enqueue(order=each) for each in range(3))
    checkout.using(tenant="other").enqueue(order=4)
    drain(either, "checkout")
    either.signal(second.id, "payment", {"amount": 5})
    either.signal(third.id, "cancel")
    drain(either, "checkout")  # one is over, one waits for its children
    checkout.enqueue(order=5)  # and one has not begun
    counts = {(each["step"], each["count"]) for each in cli.json("machines", "steps") if each["kind"] == "checkout"}
    assert counts >= {("paid", 2), ("rest", 1)}
    assert not any(each.more for each in either.step_counts())
    assert re.search(r"checkout +paid +2$", cli.ok("machines", "steps"), re.MULTILINE)
    assert [(each.step, each.count) for each in either.tenant("other").step_counts()] == [("paid", 1)]
    few = either.store.run(either.store.ops.unfinished_steps(tenant_id=None, most=1))
    assert all(each.more for each in few)
    either.cancel(first.id)
    assert {"paid": 1}.items() <= {each.step: each.count for each in either.step_counts()}.items()


def test_a_narrow_list_gives_the_room_of_empty_columns_to_names(
    either: Headway, on_terminal: Callable[..., list[str]]
) -> None:
    @either.machine
    class Onboarding(Machine):
        @step
        def start(self, ctx: Any) -> Any:
            return Next(self.send_mail)

        @step
        def send_mail(self, ctx: Any) -> Any:
            return Done()

    Onboarding.enqueue()
    drain(either)
    head, row = on_terminal(80, "machines", "list")
    assert head.split() == ["ID", "STATUS", "MACHINE", "STEP", "SINCE"]
    assert row.split()[1:4] == ["succeeded", "onboarding", "send_mail"]
    assert "KEY" not in on_terminal(160, "machines", "list")[0].split()


def test_list_can_be_narrowed(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    first, second = checkout.enqueue(order=1), checkout.using(unique_key="order:2").enqueue(order=2)
    drain(either, "checkout")
    third = checkout.enqueue(order=3)

    def ids(*flags: str) -> list[str]:
        return [each["id"] for each in cli.json("machines", "list", *flags)]

    assert ids("--awaits", "cancel") == ids("--status", "waiting") == [second.id, first.id]
    assert ids("--awaits", "refund") == []
    assert ids("--unique-key", "order:2", "--kind", "checkout", "--queue", "checkout") == [second.id]
    assert ids("--limit", "1") == [third.id]
    result = cli("machines", "list", "--limit", "1")
    assert f"next page: headway machines list --limit 1 --before {third.id}" in result.stderr
    assert ids("--before", third.id, "--limit", "1") == [second.id]
    assert "no machines for --status dead in " in cli("machines", "list", "--status", "dead").stderr


def test_show_prints_the_timeline(
    cli: Cli, either: Headway, checkout: type[Machine], on_terminal: Callable[..., list[str]]
) -> None:
    job = checkout.using(unique_key="order:7").enqueue(order=7, parcels=8)
    drain(either, "checkout")
    either.signal(job.id, "refund")
    either.signal(job.id, "payment", {"amount": 100})
    drain(either)
    result = cli("machines", "show", job.id)
    lines = result.stdout.splitlines()
    assert lines[0] == f"checkout version 2  scheduled  {job.id}"
    text = "\n".join(re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?(ms|s)\b", "T", line)).rstrip() for line in lines)
    children = [child.id for child in either.children(job.id, fence=3)]
    assert (
        f"""
timeline
 ├─ 1 start await T payment or cancel, at most 3d 0h
 │ └ waited T
 ├─ 2 paid next T
 │ got payment
 ├─ 3 pack spawn T 8 children
 │ ├ dead label {children[1]} LookupError: no printer
 │ ├ succeeded label {children[0]}
 │ ├ succeeded label {children[2]}
 │ ├ succeeded label {children[3]}
 │ ├ succeeded label {children[4]}
 │ ├ 3 more: 3 succeeded
 │ └ waited T
 └─ 4 rest sleep T for 2h 0m
 └ asleep for T

state
 "order": 7
 "parcels": 8
 "paid": {{"amount": 100}}"""
    ) in text
    assert re.search(r"  asleep until   \S+ \S+ \(in 1h 59m\)\n  next step      end\n", result.stdout)
    assert f"1 signal in its inbox: headway machines inbox {job.id}" in result.stderr
    assert max(map(len, on_terminal(80, "machines", "show", job.id))) <= 80
    found = cli.json("machines", "show", job.id)
    assert set(found) == {*Job.__struct_fields__, "history", "signals", "children"}
    told = [(each["fence"], each["step"], each["outcome"], each["signals"]) for each in found["history"]]
    assert told == [
        (1, "start", "await", []),
        (2, "paid", "next", ["payment"]),
        (3, "pack", "spawn", []),
        (4, "rest", "sleep", []),
    ]
    assert [(each["fence"], each["id"]) for each in found["children"]] == [(3, child) for child in children]
    assert [each["name"] for each in found["signals"]] == ["refund", "payment"]


def test_show_has_failed_tries_and_the_end(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(order=8, flaky=True)
    drain(either, "checkout", with_scheduled=True)
    either.signal(job.id, "cancel")
    drain(either, "checkout")
    result = cli("machines", "show", job.id)
    out = result.stdout
    assert out.startswith(f"checkout version 2  failed  {job.id}\n  ended in step  paid\n")
    assert re.search(r"├─ 1  start  failed +\S+\n  │     ValueError: no stock\n", out)
    assert re.search(r"└─ 3  paid   stop +\S+\n        got cancel\n        given up\n", out)
    assert out.endswith("\nerror\n  given up\n")
    assert f"headway jobs retry {job.id}" in result.stderr
    last = cli.ok("machines", "show", job.id, "--limit", "1")
    assert "  ┊ 2 earlier: add --limit 3\n  └─ 3  paid" in last
    assert "refused" not in cli.refused("machines", "show", new_id(), code=1)


def test_the_timeline_stays_aligned_and_cuts_nothing_that_matters(
    cli: Cli, either: Headway, on_terminal: Callable[..., list[str]]
) -> None:
    long = "ask_the_accountant_of_the_customer_for_the_receipt"

    @either.machine
    class Receipts(Machine, max_attempts=1):
        @step
        def start(self, ctx: Any) -> Any:
            return Await([f"an_answer_from_department_{n}" for n in range(4)], then=long, timeout="3d")

        @step
        def ask_the_accountant_of_the_customer_for_the_receipt(self, ctx: Any) -> Any:
            raise LookupError("the accountant " + "of the customer " * 5 + "is on holiday")

    job = Receipts.enqueue()
    drain(either)
    either.signal(job.id, "an_answer_from_department_3")
    drain(either)
    for width in (60, 80, 120):
        lines = on_terminal(width, "machines", "show", job.id)
        shown = lines[lines.index("timeline") : lines.index("state")]
        assert max(map(len, shown)) <= width
        text = re.sub(r"[\s│├└]+", " ", "\n".join(shown))
        assert "an_answer_from_department_3, at most 3d 0h" in text
        assert "of the customer is on holiday" in text
        assert long in text
        (first,) = (line.index(" await ") for line in shown if " await " in line)
        (second,) = (line.index(" failed ") for line in shown if " failed " in line)
        assert first == second
    whole = cli.ok("machines", "show", job.id).splitlines()
    assert any(line.endswith("an_answer_from_department_3, at most 3d 0h") for line in whole)


def test_a_machine_that_was_canceled_while_it_waited(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job, unstarted = checkout.enqueue(order=1), checkout.using(delay="1h").enqueue(order=2)
    drain(either, "checkout")
    for each in (job, unstarted):
        either.cancel(each.id)
    result = cli("machines", "show", job.id)
    assert "  canceled before step  paid\n" in result.stdout
    assert f"to continue it: headway jobs retry {job.id}" in result.stderr
    assert "  canceled before step  start\n" in cli.ok("machines", "show", unstarted.id)


def test_claims_that_were_given_back_are_seen(
    cli: Cli, either: Headway, checkout: type[Machine], hand: Callable[..., Any]
) -> None:
    job = checkout.enqueue(order=1)
    store = either.store

    def give_back() -> None:
        assert hand("checkout").claim() == [job.id]
        assert store.run(store.ops.release([(job.id, either.get(job.id).fence)], delay_ms=0)) == 1

    give_back()
    assert "timeline\n  ┊ given back unstarted\n" in cli.ok("machines", "show", job.id)
    drain(either, "checkout")
    either.signal(job.id, "payment", 5)
    give_back()
    give_back()
    out = cli.ok("machines", "show", job.id)
    assert "timeline\n  ┊ given back unstarted\n  └─ 2  start" in out
    assert "given back unstarted 2 times\n" in out
    drain(either, "checkout")
    out = cli.ok("machines", "show", job.id)
    assert re.search(r"├─ 2  start .*\n  │     ├ given back unstarted 2 times\n  │     └ waited \S+\n  ├─ 5  paid", out)


def test_a_machine_that_waits_says_for_what(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(order=9)
    drain(either, "checkout")
    result = cli("machines", "show", job.id)
    assert "  waits for      payment or cancel\n  since " in result.stdout
    assert re.search(r"  until          \S+ \S+ \(in 2d 23h\)\n  next step      paid\n", result.stdout)
    assert f"to send it: headway machines signal {job.id} payment" in result.stderr
    assert "waits for payment or cancel" in cli.ok("jobs", "list")
    shown = cli("jobs", "show", job.id)
    assert "  machine        version 2, step paid, waits for payment or cancel\n" in shown.stdout
    assert f"its timeline: headway machines show {job.id}" in shown.stderr


def test_signal_by_id(cli: Cli, either: Headway, checkout: type[Machine], folder: Path) -> None:
    job = checkout.enqueue(order=1)
    drain(either, "checkout")
    stays = cli("machines", "signal", job.id, "refund")
    assert stays.stdout == f"signal refund sent to machine {job.id}\n"
    assert "it waits for payment or cancel now, and gets the signal when a step awaits it" in stays.stderr
    (folder / "pay.json").write_text('{"amount": "ü"}')
    sent = cli.json("machines", "signal", job.id, "payment", "--payload", "@pay.json", "--dedup-key", "evt-7")
    assert (sent["job_id"], sent["queue"], sent["created"]) == (job.id, "checkout", True)
    again = cli("machines", "signal", job.id, "payment", "--dedup-key", "evt-7")
    assert (again.exit_code, "nothing was sent" in again.stdout, again.stderr) == (0, True, "")
    assert [(each.name, each.payload) for each in either.signals(job.id)] == [
        ("refund", None),
        ("payment", {"amount": "ü"}),
    ]


def test_signal_by_unique_key(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.using(unique_key="order:1").enqueue(order=1)
    other = checkout.using(unique_key="order:1", tenant="acme").enqueue(order=1)
    flags = ["machines", "signal", "--kind", "checkout", "--key", "order:1"]
    assert cli.json(*flags, "payment", "--payload", "5")["job_id"] == job.id
    assert cli.json(*flags, "payment", "--tenant", "acme")["job_id"] == other.id
    assert "order:2" in cli.refused(*flags[:-1], "order:2", "payment", code=1)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["payment"], "Give ID NAME, or NAME with --kind KIND --key UNIQUE_KEY"),
        (["a", "b", "c"], "which machine?"),
        (["--key", "order:1", "payment"], "give the machine's --kind"),
        (["--kind", "checkout", "x", "payment"], "which machine?"),
        (["x", "payment", "--payload", "hello"], "a text needs quotes, '\"hello\"'"),
        (["x", "payment", "--payload", "@missing"], "missing cannot be read"),
    ],
)
def test_a_signal_that_is_typed_wrongly(cli: Cli, app: Headway, args: list[str], told: str) -> None:
    app.counts()
    assert told in cli.refused("machines", "signal", *args, code=2)


def test_a_signal_to_what_is_over_or_unknown_is_refused(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(order=1)
    either.cancel(job.id)
    assert "is canceled" in cli.refused("machines", "signal", job.id, "payment", code=1)
    missing = json.loads(cli("machines", "signal", new_id(), "payment", "--json").stderr)
    assert (missing["error"], missing["exit_code"]) == ("NotFound", 1)


def test_inbox(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(order=1)
    assert "no signal was ever sent" in cli("machines", "inbox", job.id).stderr
    drain(either, "checkout")
    either.signal(job.id, "refund", [1, 2], dedup_key="r1")
    either.signal(job.id, "cancel", "tööt")
    result = cli("machines", "inbox", job.id)
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["refund", "pending"],
        ["cancel", "pending"],
    ]
    assert re.search(r"refund  pending  \S+ ago +–  r1 +\[1, 2\]\n", result.stdout)
    drain(either, "checkout")
    left = cli("machines", "inbox", job.id)
    assert [line.split()[:2] for line in left.stdout.splitlines()[1:]] == [["refund", "undelivered"]]
    assert f"1 signal consumed: headway machines inbox {job.id} --all" in left.stderr
    assert re.search(r'cancel  consumed +\S+ ago +2 +"tööt"\n', cli.ok("machines", "inbox", job.id, "--all"))
    assert [each["name"] for each in cli.json("machines", "inbox", job.id)] == ["refund"]
    assert [each["fence"] for each in cli.json("machines", "inbox", job.id, "--all")] == [None, 2]


def test_fork(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.using(unique_key="order:1").enqueue(order=1, parcels=0)
    drain(either, "checkout")
    either.signal(job.id, "payment", 5)
    drain(either, "checkout")
    result = cli("machines", "fork", job.id, "--at", "2", "--state", '{"order": 99, "parcels": 0}')
    forked = either.get(result.stdout.strip())
    assert f"begins with step paid of checkout version 2: headway machines show {forked.id}" in result.stderr
    assert (forked.step, forked.forked_from, forked.state) == ("paid", job.id, {"order": 99, "parcels": 0})
    assert f"  forked from    {job.id}\n" in cli.ok("machines", "show", forked.id)
    (entry,) = either.audit(forked.id)
    assert entry.actor is not None
    assert entry.actor.startswith("ada@")
    drain(either, "checkout")
    assert either.get(forked.id).state == {"order": 99, "parcels": 0, "paid": 5}
    assert cli.json("machines", "fork", job.id)["created"] is True
    assert either.get(cli.json("machines", "fork", job.id, "--step", "start")["id"]).step == "start"
    assert "its fences are 1, 2, 3" in cli.refused("machines", "fork", job.id, "--at", "99", code=1)
    plain = either.enqueue("plain")
    told = cli.refused("machines", "fork", plain.id, code=1)
    assert f"job {plain.id} is a plain job, not a machine; to run it again: headway jobs retry {plain.id}" in told


def test_children_can_be_listed(cli: Cli, either: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(order=1)
    drain(either, "checkout")
    either.signal(job.id, "payment", 5)
    drain(either, "checkout")
    assert cli.json("machines", "list", "--parent", job.id) == []
    children = [each["id"] for each in cli.json("jobs", "list", "--parent", job.id)]
    assert sorted(children) == sorted(child.id for child in either.children(job.id))
    assert len(children) == 2
