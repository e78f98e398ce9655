"""What type checkers know of a kind: its function's signature, and the options that it takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
PROGRAM = """
from typing import Any
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
    @step(timeout="1m")
    def start(self, ctx: Any) -> Any: ...

async def use(ctx: Context) -> str:
    plain.enqueue(user_id=1, note="x")
    plain.build(1, "x")
    plain.using(delay="5m").enqueue(1)
    await plain.aenqueue(1)
    plain(1).upper()
    first.enqueue(user_id=1)
    first.using(priority=1).build(1)
    loose.enqueue(x=object())
    index.enqueue(number=1)
    await index([Call(1, ctx)])
    return await first(ctx, 1)

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
"""


def test_a_type_checker_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # as `make check` does, so that what it found of our own modules is there already
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    limit = sys.getrecursionlimit()
    try:
        report, errors, _ = api.run([*config, str(program)])
    finally:
        sys.setrecursionlimit(limit)  # mypy lifts it, and other tests count on it
    assert not errors
    wrong = [line for line in PROGRAM.splitlines() if re.search(r"wrong.\d", line)]
    lines = PROGRAM.splitlines()
    found = {lines[int(number) - 1] for number in re.findall(r"program\.py:(\d+): error", report)}
    assert found == set(wrong), report
