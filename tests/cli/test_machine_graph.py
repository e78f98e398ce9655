"""`headway machines graph`: the ways between steps, read from the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Cli = Any

GRAPHED = '''
import headway
from headway import Await as Wait, Done, Headway, Machine, Next, Replay, Sleep, Spawn, Stop, step

app = Headway()


def shared(self, ctx):
    return Done(1)


exec("""
def hidden(self, ctx):
    return Done(1)
""")


@app.machine
class Order(Machine, version=1):
    @step
    def start(self, ctx):
        return Done(None)


@app.machine
class OrderTwo(Machine, version=2, name="order"):
    @step
    async def start(self, ctx):
        names = ["a"]
        if ctx.state:
            return Wait("pay:ment", then=self.paid, timeout="3d")
        if ctx.tries:
            return Wait(("a", "b"), "paid", match="all")
        return Wait(names, timeout=90)

    @step(max_attempts=3)
    def paid(self, ctx):
        following = self.end
        if ctx.state:
            following = self.pack
        return Next(following) if ctx.tries else self._helped(ctx)

    def _helped(self, ctx):
        if ctx.tries:
            return self._helped(ctx)
        return headway.Sleep("1d", then=self.pack)

    @step
    def pack(self, ctx):
        if ctx.inbox:
            return Replay(delay="5m")
        return Spawn([], then=self.end if ctx.tries else self.paid, on_failure="stop")

    @step
    def end(self, ctx):
        if ctx.tries:
            return Next(getattr(self, ctx.state["step"]))
        return Stop("no reason") if ctx.state else Done(1)

    common = step(shared)
    dark = step(hidden)

    def handle(self, error, ctx):
        return Replay(delay=ctx.tries) if ctx.tries < 3 else Next(self.end) if ctx.state else Stop(error)
'''


def test_graph_reads_the_ways_between_steps_from_the_code(cli: Cli, folder: Path) -> None:
    (folder / "orders.py").write_text(GRAPHED)
    result = cli("machines", "graph", "orders:app", "order")
    assert (
        result.stdout
        == """\
stateDiagram-v2
    %% order, version 2
    state "end" as end_
    [*] --> start
    dark
    start --> paid : pay#58;ment, or after 3d
    start --> paid : a and b
    start --> start : a, or after 1m 30s
    paid --> end_
    paid --> pack
    paid --> pack : sleep 1d
    pack --> pack : replay after 5m
    pack --> end_ : children, stopped at the first failure
    pack --> paid : children, stopped at the first failure
    end_ --> elsewhere
    end_ --> [*] : stop (no reason)
    end_ --> [*] : done
    common --> [*] : done
    state "a step that the code computes" as elsewhere
    note right of start
        after an exception, in any step:
        replay after ctx.tries
        next to end
        stop
    end note
    %% the source of dark cannot be read
"""
    )
    assert "the source of dark cannot be read" in result.stderr
    found = cli.json("machines", "graph", "orders:app", "OrderTwo")
    assert found["steps"] == ["start", "paid", "pack", "end", "common", "dark"]
    assert found["edges"][0] == {"step": "start", "to": "paid", "outcome": "await", "label": "pay:ment, or after 3d"}
    assert found["unread"] == ["dark"]


def test_graph_of_another_version_and_of_none(cli: Cli, folder: Path) -> None:
    (folder / "orders.py").write_text(GRAPHED)
    assert "%% order, version 1\n    [*] --> start\n    start --> [*] : done\n" in cli.ok(
        "machines", "graph", "orders:app", "order", "--version", "1"
    )
    assert "no version 7: it has 1, 2" in cli.refused(
        "machines", "graph", "orders:app", "order", "--version", "7", code=1
    )
    assert "did you mean order?" in cli.refused("machines", "graph", "orders:app", "ordre", code=1)
    assert "defines no machine" in cli.refused("machines", "graph", "shopapp:app", "order", code=1)
    assert "no module named" in cli.refused("machines", "graph", "nowhere:app", "order", code=2)
