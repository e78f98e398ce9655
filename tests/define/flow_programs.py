"""Programs for flows, and a driver of `FlowRun` without a store: a journal in memory, steps that take random time, and
a process that is killed after some commits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.define.flow_run import FlowRun, Operation
from headway.model.journal import Row

Program = Callable[["Steps"], Awaitable[Any]]


class Killed(BaseException):
    pass


class Steps:
    """What a program gets: steps that check, when they are answered, that the answer is theirs."""

    def __init__(self, run: FlowRun) -> None:
        self._run = run

    async def step(self, name: str, arg: Any) -> str:
        operation = Operation("step", name, args=[arg], what=(name, arg))
        future = self._run.ask(operation)
        try:
            answer: str = await future
        except asyncio.CancelledError:
            self._run.give_up(operation)
            raise
        assert answer == f"{name}({arg})", f"{operation.place} asked with {arg} got {answer}"
        return answer


class World:
    """One flow through all of its executions."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.journal: list[Row] = []
        self.rng = random.Random(seed)
        self.executed: list[str] = []  # places whose step ran

    def execute(self, most: int | None) -> Any:
        """One execution, killed after `most` new rows; gives the result, raises `Killed` or what the program raises."""
        return asyncio.run(self._execute(most))

    async def _execute(self, most: int | None) -> Any:
        run = FlowRun("job", 1, self.journal)
        steps = Steps(run)
        await self._off_task(lambda: run.begin(lambda: self.program(steps), 0.0))
        running: dict[str, tuple[float, Operation]] = {}
        now = new = 0.0
        try:
            while True:
                await self._off_task(lambda: _until_rest(run))
                for operation in run.take_left():
                    running.pop(operation.place, None)
                if run.is_over:
                    assert run.main is not None
                    run.close()
                    return run.main.result()
                for place, operation in run.asked.items():
                    if place not in running:
                        took = operation.what.delay_s if operation.kind == "timer" else self.rng.random() * 0.01
                        running[place] = (now + took, operation)
                if most is not None and new >= most:
                    raise Killed
                assert running, "it waits for nothing"
                place = min(running, key=lambda place: running[place][0])
                now, operation = running.pop(place)
                kind, value = "timer", None
                if operation.kind == "step":
                    name, arg = operation.what
                    self.executed.append(place)
                    kind, value = "done", msgspec.Raw(msgspec.json.encode(f"{name}({arg})"))
                row = _row(len(self.journal) + 1, kind, place, value, operation.print, now)
                self.journal.append(row)
                new += 1
                await self._off_task(lambda row=row: run.deliver(row))
        finally:
            await self._off_task(run.drop)

    async def _off_task(self, call: Callable[[], Any]) -> Any:
        """In a callback and not in a task, as a worker does it."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def inside() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        asyncio.get_running_loop().call_soon(inside)
        return await done


def _until_rest(run: FlowRun) -> None:
    while not run.advance():
        pass


def _row(seq: int, kind: Any, place: str, value: msgspec.Raw | None, fingerprint: int | None, at: float) -> Row:
    return Row(
        job_id="job",
        seq=seq,
        fence=1,
        kind=kind,
        place=place,
        value=value,
        error=None,
        print=fingerprint,
        at=datetime.fromtimestamp(at, UTC),
        took_ms=None,
        signal=None,
    )


async def completed(steps: Steps) -> Any:
    async def pay(result: str) -> str:
        return await steps.step("pay", result)

    async with asyncio.TaskGroup() as group:
        later = []
        tasks = [asyncio.create_task(steps.step("fetch", x)) for x in (1, 2, 3)]
        for future in asyncio.as_completed(tasks):
            later.append(group.create_task(pay(await future)))
    return [task.result() for task in later]


async def queued(steps: Steps) -> Any:
    queue: asyncio.Queue[str] = asyncio.Queue()
    out: list[str] = []

    async def produce(x: int) -> None:
        await queue.put(await steps.step("make", x))

    async def consume() -> None:
        for _ in range(3):
            out.append(await steps.step("send", await queue.get()))

    await asyncio.gather(produce(1), produce(2), produce(3), consume())
    return out


async def first_of(steps: Steps) -> Any:
    tasks = {asyncio.create_task(steps.step("try", x)) for x in "abc"}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return await steps.step("use", sorted(task.result() for task in done)[0])


async def timed(steps: Steps) -> Any:
    out = []
    for x in range(4):
        try:
            async with asyncio.timeout(0.004):
                out.append(await steps.step("slow", x))
        except TimeoutError:
            out.append(await steps.step("instead", x))
    return out


async def locked(steps: Steps) -> Any:
    lock, window, out = asyncio.Lock(), asyncio.Semaphore(2), []

    async def one(x: int) -> None:
        async with window:
            got = await steps.step("load", x)
            async with lock:
                out.append(await steps.step("store", got))

    await asyncio.gather(*(one(x) for x in range(5)))
    return out


async def with_anyio(steps: Steps) -> Any:
    import anyio

    out: list[str] = []
    send, receive = anyio.create_memory_object_stream[str](10)

    async def tool(x: int) -> None:
        got = await steps.step("tool", x)
        await send.send(got)
        out.append(await steps.step("after", got))

    async with send, receive:
        async with anyio.create_task_group() as group:
            for x in range(4):
                group.start_soon(tool, x)
        return out + [await receive.receive() for _ in range(4)]


PROGRAMS = (completed, queued, first_of, timed, locked, with_anyio)
