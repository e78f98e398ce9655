"""Runs the scenarios of clients/conformance.json with the Python client."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import headway_client
import httpx2
from headway_client import (
    ApiError,
    Attempt,
    Await,
    Cancel,
    Client,
    Context,
    Done,
    Fatal,
    Gone,
    Job,
    Next,
    Replay,
    Retry,
    Sleep,
    Spawn,
    Stop,
    StreamEvent,
    Worker,
)

from tests.clients.served import Served

FILE = Path(__file__).parents[2] / "clients" / "conformance.json"
SAID: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
NAME = f"python-{uuid4()}"
STEPS = ("start", "one", "two", "three", "four", "end")


class Conformance:
    """The client, its workers, and what the scenarios need beside its verbs."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.client = Client(served.address, key=served.keys["HEADWAY_KEY"])
        self._stopped: set[tuple[str, int]] = set()

    @contextmanager
    def workers(self) -> Iterator[None]:
        began: list[tuple[Worker, threading.Thread]] = []
        for each in SAID["workers"]:
            client = Client(self._served.address, key=self._served.keys["WORKER_KEY"])
            worker = Worker(client, queues=each["queues"], heartbeat=0.3)
            for kind in ("play", "play_briefly", "play_apart"):
                worker.handler(kind)(self._play)
            for step in STEPS:
                worker.handler("play_steps", step=step)(_play_step)
            thread = threading.Thread(target=lambda worker=worker: asyncio.run(worker.arun()), daemon=True)
            thread.start()
            began.append((worker, thread))
        try:
            yield
        finally:
            for worker, _ in began:
                worker.stop()
            for _, thread in began:
                thread.join(60)
            self.client.close()

    def run(self, scenario: dict[str, Any]) -> None:
        saved: dict[str, Any] = {}
        for place, call in enumerate(scenario["calls"], 1):
            where = f"{scenario['name']}, call {place} ({call['call']})"
            args = _filled(call.get("args", {}), saved)
            expected = _filled(call.get("raises", call.get("gives")), saved)
            try:
                answer = _plain(self._call(call["call"], args))
            except ApiError as error:
                if "raises" not in call:
                    raise AssertionError(where) from error
                answer = {
                    "type": type(error).__name__,
                    "status": error.status,
                    "code": error.code,
                    "job_id": error.job_id,
                }
            else:
                assert "raises" not in call, f"{where} gave {answer}"
            if "gives" in call or "raises" in call:
                _check(answer, expected, f"{where} gave {str(answer)[:500]}")
            if "save" in call:
                saved[call["save"]] = answer

    def _call(self, name: str, args: dict[str, Any]) -> Any:
        client = self.client
        match name:
            case "enqueue":
                return client.enqueue(args["kind"], args.get("payload"), **args.get("options", {}))
            case "enqueue_many":
                return client.enqueue_many(args["jobs"])
            case "list":
                return list(client.jobs(**args))
            case "change":
                return client.change(args["id"], **args["changes"])
            case "stream":
                return _streamed(client, args["id"], args.get("run", False))
            case "until":
                wanted = dict(args)
                job_id = wanted.pop("id")
                return _until(
                    lambda: client.get(job_id), lambda job: wanted.items() <= job.fields.items(), f"{job_id} {wanted}"
                )
            case "until_stopped":
                key = (args["id"], args["fence"])
                return _until(lambda: key in self._stopped, bool, f"{key} stopped")
            case "declare_dead":
                worker_id = client.get(args["id"]).fields["worker_id"]
                headers = {"Authorization": f"Bearer {self._served.keys['ADMIN_KEY']}"}
                return httpx2.post(f"{self._served.address}/api/v1/workers/{worker_id}/dead", headers=headers).json()
            case "signal" | "emit" | "get" | "result" | "attempts" | "why" | "journal":
                first = [args.pop(each) for each in ("id", "name") if each in args]
                return getattr(client, name)(*first, **args)
            case "cancel" | "retry" | "run" | "reschedule" | "move":
                return getattr(client, name)(args.pop("id"), **args)
        raise AssertionError(f"no call {name}")

    async def _play(self, does: list[dict[str, Any]], ctx: Context) -> Any:
        said = does[min(ctx.fence, len(does)) - 1]
        if "report" in said:
            ctx.progress(0.5, "half")
            ctx.log(said["report"])
        if "fail" in said:
            raise RuntimeError(said["fail"])
        if "retry" in said:
            raise Retry(said["retry"], said["reason"])
        if "cancel" in said:
            raise Cancel(said["cancel"])
        if "fatal" in said:
            raise Fatal(said["fatal"])
        if "hold" in said:
            try:
                await asyncio.sleep(120)
            except asyncio.CancelledError:
                if "return" not in said and "done" not in said:
                    raise
            finally:
                self._stopped.add((ctx.job_id, ctx.fence))
        if "done" in said:
            return Done(said["done"])
        return "x" * said["return_text"] if "return_text" in said else said["return"]


def _play_step(does: list[dict[str, Any]], ctx: Context) -> Any:
    said, state = does[0], {"does": does[1:]}
    match said:
        case {"next": step}:
            return Next(step, state)
        case {"replay": _, "delay": delay}:
            return Replay(state, delay)
        case {"await": names, "then": then}:
            return Await(names, then, state, said.get("timeout"), said.get("match", "any"))
        case {"spawn": children, "then": then}:
            return Spawn(children, then, state)
        case {"sleep": delay, "then": then}:
            return Sleep(delay, then, state)
        case {"done": "$signals"}:
            return Done([each.payload for each in ctx.signals])
        case {"done": "$children"}:
            return Done([each.result for each in ctx.children])
        case {"done": "$timed_out"}:
            return Done(ctx.timed_out)
        case {"stop": reason}:
            return Stop(reason)
    raise AssertionError(f"no outcome {said}")


def _streamed(client: Client, job_id: str, run: bool) -> dict[str, Any]:
    """What a stream told."""
    events: list[StreamEvent] = []
    for each in client.stream(job_id):
        events.append(each)
        if run and len(events) == 1:
            client.run(job_id)
    statuses = [each.status for each in events if isinstance(each, Job)]
    return {
        "first": statuses[0],
        "last": statuses[-1],
        "attempts": [each.status for each in events if isinstance(each, Attempt)],
        "gone": any(isinstance(each, Gone) for each in events),
    }


def run_all(served: Served) -> list[str]:
    """Run every scenario, all at the same time; gives their names. Raises at the first that fails."""
    conformance = Conformance(served)
    scenarios = SAID["scenarios"]
    with conformance.workers(), ThreadPoolExecutor(len(scenarios)) as threads:
        for _ in threads.map(conformance.run, scenarios):
            pass
    return [each["name"] for each in scenarios]


def _filled(value: Any, saved: dict[str, Any]) -> Any:
    """With what the names stand for."""
    match value:
        case "$signals" | "$children" | "$timed_out":
            return value  # the handlers' own names
        case str() if value.startswith("$"):
            name, *path = value[1:].split(".")
            found = saved[name]
            for part in path:
                found = found[int(part)] if isinstance(found, list) else found[part]
            return found
        case str():
            return value.replace("{client}", NAME)
        case {"$text": length}:
            return "x" * length
        case dict():
            return {key: _filled(each, saved) for key, each in value.items()}
        case list():
            return [_filled(each, saved) for each in value]
    return value


def _plain(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_plain(each) for each in answer]
    if isinstance(answer, (headway_client.Job, headway_client.Attempt)):
        return dict(answer.fields)
    return dataclasses.asdict(answer) if dataclasses.is_dataclass(answer) else answer  # type: ignore[arg-type]


def _check(found: Any, expected: Any, where: str) -> None:
    match expected:
        case {"$matches": pattern}:
            assert isinstance(found, str), f"{where}: {found!r}"
            assert re.search(pattern, found), f"{where}: {found!r} has no {pattern!r}"
        case dict():
            for key, each in expected.items():
                assert key in found, f"{where}: no {key} in {found}"
                _check(found[key], each, f"{where}: {key}")
        case list():
            assert len(found) == len(expected), f"{where}: {found}"
            for one, each in zip(found, expected, strict=True):
                _check(one, each, where)
        case _:
            assert found == expected, f"{where}: {found!r}, not {expected!r}"


def _until(look: Callable[[], Any], enough: Callable[[Any], bool], what: str) -> Any:
    end = time.monotonic() + 60
    while not enough(found := look()):
        assert time.monotonic() < end, f"not within a minute: {what}"
        time.sleep(0.02)
    return found
