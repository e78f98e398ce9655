"""What type checkers know of a kind: its function's signature, and the options that it takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
PROGRAM = """
from dataclasses import dataclass
from typing import Any
import msgspec
from headway import Await, Done, Headway, Next, StepOutcome, secret
from headway.testing import stepping
from headway.define import Call, Context, Machine, Registry, step
registry = Registry()

@registry.job
def plain(user_id: int, note: str = "") -> str: return note

@registry.job(queue="mail")
async def first(ctx: Context, user_id: int) -> str: return ""

@registry.job
def loose(x: Any) -> int: return 1

@registry.schedule("0 2 * * *", tz="UTC", every=None, jitter="5s")
@registry.job
def nightly() -> None: ...

@registry.job(batch=10, batch_wait="50ms")
async def index(calls: list[Call[int]]) -> list[int]: return [call.args for call in calls]

class Order(Machine, queue="orders", version=2):
    class State(msgspec.Struct):
        number: int
        paid: float = 0.0

    @step(timeout="1m")
    def start(self, ctx: Context[State]) -> StepOutcome:
        ctx.state.paid += 1
        ctx.state = Order.State(ctx.state.number)
        helper(ctx)
        return Await("payment", then=self.ship)

    @step
    async def ship(self, ctx: Context[State]) -> StepOutcome:
        ctx.state.wrong_20
        if ctx.state.number: return "wrong-21"
        return Next("start") if ctx.timed_out else Done(ctx.state.number)

    def handle(self, error: Exception, ctx: Context) -> StepOutcome | None:
        ctx.state.anything()
        return None

class Kept(msgspec.Struct):
    number: int

class Keeper(Machine):
    State = Kept

    @step
    def start(self, ctx: Context[Kept]) -> Done:
        return Done(ctx.state.number)

def step_by_hand(app: Headway) -> None:
    stepping(app, Order, number=1).step()
    stepping(app, Order.using(unique_key="order:1"), number=1).signal("payment", {})
    stepping(app, registry.machine(Keeper), number=1)
    stepping(app, Keeper.build(number=1)).run()
    stepping(app, Keeper.enqueue(number=1))
    stepping(app, "an id")
    stepping(app, first, user_id=1).wrong_40
    stepping(app, 1)  # wrong-41
    Keeper.enqueue(number="wrong-42")

class Parcel(Machine):
    @dataclass
    class State:
        weight: int

class Loose(Machine): ...

class Bulk(Order): ...

async def use(ctx: Context) -> str:
    plain.enqueue(user_id=1, note="x")
    plain.build(1, "x")
    plain.using(delay="5m").enqueue(1)
    await plain.aenqueue(1)
    plain(1).upper()
    first.enqueue(user_id=1)
    first.using(priority=1).build(1)
    loose.enqueue(x=object())  # pyright takes Any for a context
    helper(ctx)
    index.enqueue(number=1)
    await index([Call(1, ctx)])
    Order.enqueue(1, paid=2.5)
    await Order.aenqueue(number=1)
    Order.using(unique_key="order:1").enqueue(number=1)
    Parcel.build(weight=1)
    Bulk.enqueue(number=1)
    Loose.enqueue(anything=1)
    Loose.enqueue()
    any_machine(Order)
    plain.enqueue(1, secret("NOTE"))
    return await first(ctx, 1)

def helper(ctx: Context[Any]) -> None: ...

def any_machine(machine: type[Machine]) -> None:
    machine.enqueue(anything=1)

plain.enqueue(user_id="wrong-1")
plain("wrong-2")
first.enqueue(user_id="wrong-3")
plain.using(wrong_4=1)
registry.job(wrong_5=1)
plain.build(1, wrong_6=1)
plain.using(priority="wrong-7")
registry.schedule("@daily", wrong_8=1)
registry.schedule("@daily", overlap="wrong-9")
step(wrong_10=1)
class Wrong11(Machine, batch=10): ...  # wrong-11
index([]).wrong_12()
Order.enqueue(wrong_13=3)
Order.build(number="wrong-14")
Order.using(priority=1).enqueue(wrong_15=3)
Parcel.enqueue(wrong_16=3)
Bulk.enqueue(wrong_17=3)
plain.enqueue(secret("wrong-18"))
Order.using(wrong_19=1)
"""


FLOWS = """
import asyncio
from datetime import datetime
from headway import Context, Flow, Headway, SyncFlow
app = Headway("sqlite://")

@app.job
def pack(order: int) -> str: return ""

@app.job
async def weigh(ctx: Context, order: int) -> float: return 0.0

@app.step(max_attempts=3)
def reserve(order: int, where: str = "") -> list[str]: return []

async def charge(ctx: Context, order: int) -> datetime: return datetime.now()

@app.flow(queue="orders", version=3, since=1)
async def checkout(flow: Flow, order: int, note: str = "") -> str:
    stock = await flow.step(reserve, order, where="x")
    stock.sort()
    (await flow.step(charge, order)).isoformat()
    (await flow.using(max_attempts=3).step(lambda: 1)).bit_length()
    (await flow.call(pack, order=order)).upper()
    label, weight = await asyncio.gather(flow.call(pack, order), flow.call(weigh, order=order))
    label.upper(), weight.is_integer()
    (await flow.call(plainly, order=order)).bit_length()
    (await flow.enqueue(pack, order)).upper()
    for child in await flow.calls([pack.build(order)], until="first"):
        child.status.upper()
    async with flow.saga() as saga:
        saga.undo(reserve, order, where="x")
    await flow.receive("payment", timeout="3d")
    await flow.sleep_until(flow.now())
    Flow.current().job_id.upper()
    if order:
        flow.restart(order, note="again")
    await flow.step(reserve, "wrong-1")
    (await flow.step(reserve, order)).wrong_2
    await flow.step(charge, wrong_3=1)
    (await flow.call(pack, order=order)).wrong_4
    await flow.call(pack, order="wrong-5")
    await flow.call(weigh, wrong_6=1)
    saga.undo(reserve, "wrong-7")
    await flow.sleep_until("wrong-8")
    flow.wrong_9()
    flow.fail("never paid")

@app.flow
def plainly(flow: SyncFlow, order: int) -> int:
    flow.step(reserve, order).sort()
    flow.call(pack, order=order).upper()
    flow.sleep("1d")
    with flow.saga() as saga:
        saga.undo(reserve, order)
    flow.step(reserve, "wrong-11")
    flow.call(pack, wrong_12=order)
    flow.call(checkout, order=order).upper()
    return flow.call(weigh, order=order)  # wrong-13

async def use() -> None:
    checkout.enqueue(order=1, note="x")
    checkout.using(unique_key="order:1").enqueue(1)
    await checkout.aenqueue(order=1)
    checkout.build(1)
    plainly.enqueue(order=1)
    checkout.signal("order:1", "payment", {"amount": 1})

checkout.enqueue(order="wrong-21")
checkout.enqueue(wrong_22=1)
checkout.build(1, wrong_23=1)
plainly.enqueue(order="wrong-24")
app.flow(wrong_25=1)
checkout.using(wrong_26=1)
"""


def test_type_checkers_accept_right_calls_and_refuse_wrong_ones(tmp_path: Path) -> None:
    programs = {"kinds.py": PROGRAM.splitlines(), "flows.py": FLOWS.splitlines()}
    for name, lines in programs.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    wrong = {line for lines in programs.values() for line in lines if re.search(r"wrong.\d", line)}
    for checker in (mypy, pyright):
        report = checker([tmp_path / name for name in programs])
        found = {
            programs[name][int(number) - 1]
            for name, number in re.findall(r"(kinds\.py|flows\.py):(\d+):.*error", report)
        }
        if checker is pyright:
            found -= {line for lines in programs.values() for line in lines if "# pyright takes" in line}
        assert found == wrong, f"{checker.__name__}: {found ^ wrong}\n{report}"


def mypy(programs: list[Path]) -> str:
    # as `make check` does, so that what it found of our own modules is there already
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    limit = sys.getrecursionlimit()
    try:
        report, errors, _ = api.run([*config, *map(str, programs)])
    finally:
        sys.setrecursionlimit(limit)  # mypy lifts it, and other tests count on it
    assert not errors
    return report


def pyright(programs: list[Path]) -> str:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--level", "error"]
    folder = programs[0].parent
    return subprocess.run([*command, *map(str, programs)], capture_output=True, text=True, cwd=folder).stdout
