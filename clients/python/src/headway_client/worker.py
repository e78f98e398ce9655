"""Worker: claims jobs over HTTP, runs their handlers, and says how they ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from headway_client import logs, traces
from headway_client.aio import AsyncClient
from headway_client.client import Client
from headway_client.context import Context
from headway_client.errors import ApiError, ConfigError, HeadwayError, LeaseLost, Unavailable, UnexpectedAnswer
from headway_client.handlers import START, Handler, handler
from headway_client.lease import beat_after, lease_left
from headway_client.outcomes import Duration
from headway_client.requests import Request
from headway_client.running import CANCELED, Running
from headway_client.settings import Settings, seconds
from headway_client.threads import Threads
from headway_client.uploads import Uploads
from headway_client.version import __version__

if TYPE_CHECKING:
    from headway_client.spans import Spans

log = logging.getLogger("headway.worker")
F = TypeVar("F", bound=Callable[..., Any])

_WAIT_S = 20.0
_AT_ONCE = 500  # ends in one request
_MOST_GIVEN_BACK = 10_000
_FIRST_BEAT_S = 5.0
_TOO_OFTEN_S = 0.2
_REFUSED = (401, 403, 422)  # the same claim would be refused again, until somebody changes the key or the worker
_LONGEST_PAUSE_S = 10.0
_LONGEST_REFUSED_S = 60.0
_LAST_MOMENT_S = 2.0  # for plain functions that look at `ctx.canceled` when the grace period is over
_KEPT = "outcomes cannot be written: they are kept"


class Worker:
    """Runs jobs of some queues: `Worker(client, queues={"mail": 5})` has five slots for that queue. It sends heartbeats
    after a third of its lease, and at least every `heartbeat`: that is how soon it learns of a cancel.

    Plain functions run in threads, async ones on the event loop. On SIGTERM or SIGINT it claims no more, lets its jobs
    run for the grace period, and gives back those that are left, uncharged. A second signal ends the grace period.

    A worker whose very first claims are refused, because of its key or its queues, ends and raises that error. One
    whose key is refused later asks again with growing pauses, up to a minute.
    """

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        queues: Mapping[str, int],
        grace: Duration | None = None,
        heartbeat: Duration = 20.0,
    ) -> None:
        if not queues or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in queues.values()):
            raise ConfigError(f"queues={dict(queues)!r}: name at least one queue, with its slots from 1")
        self._settings: Settings = Settings.read() if client is None else client.settings
        self._queues = dict(queues)
        self._longest_beat_s = _seconds("heartbeat", heartbeat)
        self._grace_s = self._settings.grace if grace is None else _seconds("grace", grace)
        self._handlers: dict[tuple[str, str | None], Handler] = {}
        self._stopping: asyncio.Event | None = None
        self._grace_over: asyncio.Event | None = None
        self._stop_asked = threading.Event()
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self.worker_id = str(uuid4())
        self._spans: Spans | None = None
        if self._settings.otel:
            from headway_client.spans import Spans

            self._spans = Spans(self.worker_id)

    def handler(self, kind: str, *, step: str | None = None) -> Callable[[F], F]:
        """Register the function that runs jobs of a kind, or one step of a machine; the first step is "start".

        It takes the payload (of a step, the state) by the names of its fields, or as a whole in a parameter whose type
        is a dict, TypedDict, dataclass or pydantic model, or whose name is `payload` or `state`; and the `Context` in a
        parameter of that type, or named `ctx`.
        """

        def add(call: F) -> F:
            self._handlers[kind, step] = handler(kind, step, call)
            return call

        return add

    def stop(self) -> None:
        """Claim no more, finish, end; the second time: end the grace period. From any thread."""
        self._stop_asked.set()
        if self._event_loop is not None:
            with suppress(RuntimeError):
                self._event_loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        assert self._stopping is not None
        assert self._grace_over is not None
        if self._stopping.is_set():
            self._grace_over.set()
        self._stopping.set()

    def run(self) -> None:
        """Work until `stop`, SIGTERM or SIGINT."""
        logs.configure(self._settings)
        asyncio.run(self._run(signals=True))

    async def arun(self) -> None:
        """The same on a running event loop, which keeps its signal handlers."""
        await self._run(signals=False)

    async def _run(self, *, signals: bool) -> None:
        if not self._handlers:
            raise ConfigError("no handlers: register some with @worker.handler(kind)")
        self._stopping = asyncio.Event()
        self._grace_over = asyncio.Event()
        self._event_loop = asyncio.get_running_loop()
        if self._stop_asked.is_set():
            self._stopping.set()
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                try:
                    self._event_loop.add_signal_handler(number, self._stop)
                except NotImplementedError:  # Windows
                    signal.signal(number, lambda _number, _frame: self.stop())
        async with AsyncClient(settings=self._settings) as client:
            self._client = client
            of_threads = Client(settings=self._settings)
            self._uploads = Uploads(of_threads, client, self.worker_id)
            self._threads = Threads(sum(self._queues.values()))
            self._running: dict[tuple[str, int], Running] = {}
            self._ends: asyncio.Queue[tuple[Running, dict[str, Any]]] = asyncio.Queue()
            self._free = {queue: asyncio.Semaphore(slots) for queue, slots in self._queues.items()}
            self._beat_s = min(_FIRST_BEAT_S, self._longest_beat_s)
            self._sooner = asyncio.Event()
            self._accepted = False  # whether the server has ever taken a claim of this worker
            self._beating = asyncio.Lock()
            self._beats = 0  # how many heartbeats were sent
            self._given_back: OrderedDict[tuple[str, int], None] = OrderedDict()  # what the server says it took back
            log.info("worker started", extra={"worker_id": self.worker_id, "queues": self._queues, "pid": os.getpid()})
            claims = [asyncio.create_task(self._claim_from(queue)) for queue in self._queues]
            others = [asyncio.create_task(self._beat()), asyncio.create_task(self._settle())]
            try:
                await self._until_stopped([*claims, *others])
            finally:
                for task in claims:
                    task.cancel()
                await asyncio.gather(*claims, return_exceptions=True)
                await self._finish()
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
                self._threads.close()
                of_threads.close()
                log.info("worker stopped", extra={"worker_id": self.worker_id})

    async def _until_stopped(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Raises what ended one of the loops: a worker that does not claim any more must not look alive."""
        assert self._stopping is not None
        stopped = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait((stopped, *loops), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for each in done:
            each.result()

    # claims

    async def _claim_from(self, queue: str) -> None:
        slots, failures, refused = self._free[queue], 0, False
        while True:
            await slots.acquire()
            taken = 1
            while not slots.locked():
                await slots.acquire()
                taken += 1
            began = time.monotonic()
            claim_id = str(uuid4())
            jobs: list[dict[str, Any]] = []
            try:
                while True:
                    try:
                        jobs = await self._claim(queue, taken, claim_id)
                        failures, refused, self._accepted = 0, False, True
                        break
                    except (Unavailable, ApiError, UnexpectedAnswer) as error:
                        failures += 1
                        if isinstance(error, ApiError) and error.status in _REFUSED:
                            if not refused:
                                self._say_refused(queue, error)
                            if not self._accepted:
                                raise
                            refused = True
                        elif failures == 1:
                            log.warning("a claim failed: it is repeated", extra={"error": str(error)})
                        # the same claim again: what it brought the first time is not lost
                        longest_s = _LONGEST_REFUSED_S if refused else _LONGEST_PAUSE_S
                        await asyncio.sleep(min(0.2 * 2 ** min(failures, 9), longest_s))
                for job in jobs:
                    taken -= self._start(job)
            finally:
                for _ in range(taken):
                    slots.release()
            if not jobs and time.monotonic() - began < _TOO_OFTEN_S:
                await asyncio.sleep(_TOO_OFTEN_S)  # a server that does not wait must not be asked without a pause

    def _say_refused(self, queue: str, error: ApiError) -> None:
        does = f"it asks again, at least every {_LONGEST_REFUSED_S:g} s" if self._accepted else "it ends"
        fix = "give it a key of role worker that is for its queues and kinds (headway keys create NAME --role worker)"
        log.error(
            f"the server refuses this worker's claims, so {does}: {fix}", extra={"error": str(error), "queue": queue}
        )

    async def _claim(self, queue: str, limit: int, claim_id: str) -> list[dict[str, Any]]:
        body: dict[str, Any] = {
            "worker_id": self.worker_id,
            "claim_id": claim_id,
            "queues": [queue],
            "kinds": sorted({kind for kind, _ in self._handlers}),
            "limit": limit,
            "wait": _WAIT_S,
            "hostname": socket.gethostname(),
            "version": __version__,
        }
        shape = partial(_having, "jobs", "lease_expires_at", "date")
        while True:
            began, beats = time.monotonic(), self._beats
            wait_s = body["wait"]
            request = Request("POST", "/worker/jobs/claim", shape, body, wait_s=wait_s, repeatable=False, dated=True)
            said: dict[str, Any] = await self._client.send(request)
            self._lease(said)
            took_s = time.monotonic() - began
            left_s = lease_left(said["lease_expires_at"], said["date"])
            if not said["jobs"] or (took_s < left_s and self._beats < beats + 2):
                return list(said["jobs"])
            # the answer may have been under way for so long that its jobs run elsewhere by now: the same claim again
            # gives those that are still this worker's
            body["wait"] = 0

    def _lease(self, said: Mapping[str, Any]) -> None:
        before, self._beat_s = self._beat_s, beat_after(said["lease_expires_at"], said["date"], self._longest_beat_s)
        if self._beat_s < before / 2:
            self._sooner.set()

    # running

    def _start(self, job: dict[str, Any]) -> bool:
        """False where the server has taken it back before its answer came here."""
        if (job["id"], job["fence"]) in self._given_back:
            log.warning("a job came too late and is not run: it was given back", extra={"job_id": job["id"]})
            return False
        run = Running(Context(job, self._uploads), self.worker_id)
        self._running[run.key] = run
        run.task = asyncio.create_task(self._execute(run))
        return True

    async def _execute(self, run: Running) -> None:
        ctx = run.ctx
        span = None if self._spans is None else self._spans.begin(ctx)
        traces.running.set(ctx.traceparent)
        logs.job.set({"job_id": ctx.job_id, "kind": ctx.kind, "fence": ctx.fence, "trace_id": ctx.trace_id})
        found = self._handlers.get((ctx.kind, ctx.step)) or self._handlers.get(
            (ctx.kind, START if ctx.step is None else None)
        )
        raised: BaseException | None = None
        try:
            run.begin()
            if found is None:
                said = {"error": f"no handler here for {ctx.kind}, step {ctx.step}", "delay": "30s"}
            else:
                said = run.end_of(await run.call(found, self._threads), is_step=found.step is not None)
        except asyncio.CancelledError as error:
            raised, said = error, run.end_of_stop()
        except BaseException as error:
            raised, said = error, run.end_of_error(error)
        if span is not None:
            from headway_client.spans import end

            end(span, said, raised, stopped=isinstance(raised, asyncio.CancelledError), dropped=run.dropped)
        if run.dropped:
            self._forget(run)
        else:
            await self._ends.put((run, said))

    def _drop(self, run: Running) -> None:
        run.drop()
        if run.ended_at is not None:  # it waits to be written: nothing else frees its slot
            self._forget(run)

    def _forget(self, run: Running) -> None:
        if self._running.pop(run.key, None) is not None and not run.keeps_slot:
            self._free[run.ctx.queue].release()
        elif run.keeps_slot and run.thread is not None:
            slot = self._free[run.ctx.queue]
            run.keeps_slot = False
            assert self._event_loop is not None
            event_loop = self._event_loop

            def free(_: Any) -> None:
                with suppress(RuntimeError):
                    event_loop.call_soon_threadsafe(slot.release)

            run.thread.add_done_callback(free)

    # ends

    async def _settle(self) -> None:
        while True:
            batch = [await self._ends.get()]
            while len(batch) < _AT_ONCE and not self._ends.empty():
                batch.append(self._ends.get_nowait())
            await self._write(batch)
            for _ in batch:
                self._ends.task_done()

    async def _write(self, batch: list[tuple[Running, dict[str, Any]]]) -> None:
        """Until it is written, or the jobs are not this worker's any more."""
        if any(run.ctx.has_said for run, _ in batch):
            await self._say_held()  # their last words: no heartbeat names them afterwards
        failures = 0
        shape = partial(_having, "lost", "continued")
        while batch := [(run, said) for run, said in batch if not run.dropped]:
            body = {"worker_id": self.worker_id, "jobs": [run.name | said for run, said in batch]}
            try:
                said = await self._client.send(Request("POST", "/worker/settle", shape, body))
            except LeaseLost:
                self._lose("the server does not know this worker any more")
                break
            except (ApiError, UnexpectedAnswer) as error:
                refused = _is_refusal(error)
                if refused and len(batch) > 1:
                    for each in batch:  # one of them is refused: the others are written
                        await self._write([each])
                    return
                if refused and error.status != 429:
                    log.error("the outcome of a job was refused", extra={"error": str(error)})
                    batch = [(run, {"error": f"its outcome was refused: {error}", "retry": False}) for run, _ in batch]
                    if failures:
                        break
                else:
                    log.warning(_KEPT, extra={"error": str(error)})
            except Unavailable as error:
                log.warning(_KEPT, extra={"error": str(error)})
            else:
                self._written(batch, said)
                return
            failures += 1
            await asyncio.sleep(min(0.2 * 2 ** min(failures, 6), 10.0))
        for run, _ in batch:
            self._forget(run)

    def _written(self, batch: list[tuple[Running, dict[str, Any]]], said: dict[str, Any]) -> None:
        lost = {(each["id"], each["fence"]) for each in said["lost"]}
        goes_on = {each["id"]: each for each in said["continued"]}
        for run, _ in batch:
            if run.key in lost:
                log.warning("a job was lost: nothing of it was written", extra={"job_id": run.ctx.job_id})
            following = goes_on.get(run.ctx.job_id)
            # in the same slot, unless that was freed meanwhile
            if following is not None and run.key in self._running and self._start(following):
                self._running.pop(run.key, None)
            else:
                self._forget(run)

    # heartbeats

    async def _beat(self) -> None:
        while True:
            with suppress(TimeoutError):
                # a lease that turns out to be shorter brings the next heartbeat forward
                await asyncio.wait_for(self._sooner.wait(), self._beat_s)
            if self._sooner.is_set():
                self._sooner.clear()
                await asyncio.sleep(self._beat_s)
            if self._running:
                await self._say_held()

    async def _say_held(self) -> None:
        async with self._beating:  # what jobs log arrives in order
            await self._say(list(self._running.values()))  # those that run now: one that it leaves out is taken back

    async def _say(self, runs: list[Running]) -> None:
        # each job once, in its last execution: one before may still wait for the answer that it was settled
        newest = {run.ctx.job_id: run for run in sorted(runs, key=lambda run: run.ctx.fence)}
        reports = [(run, run.ctx.take_said()) for run in newest.values()]
        try:
            try:
                said = await self._send_held([run.name | said for run, said in reports])
            except (ApiError, UnexpectedAnswer) as error:
                if not _is_refusal(error) or error.status not in (400, 413, 422):
                    raise
                # what one job says must not cost the lease of all
                log.error("what jobs said was refused, and is dropped", extra={"error": str(error)})
                reports = [(run, {}) for run, _ in reports]
                said = await self._send_held([run.name for run, _ in reports])
        except LeaseLost as error:
            self._lose(str(error))
            return
        except HeadwayError as error:
            log.warning("a heartbeat failed", extra={"error": str(error)})
            for run, unsaid in reports:
                run.ctx.say_again(unsaid)
            return
        self._lease(said)
        for each in said["cancel_requested"]:
            found = self._running.get((each["id"], each["fence"]))
            if found is not None and not found.stop_reason:
                found.stop(CANCELED)
        for each in said["released"]:
            self._given_back[each["id"], each["fence"]] = None
            if len(self._given_back) > _MOST_GIVEN_BACK:
                self._given_back.popitem(last=False)
        for each in (*said["lost"], *said["released"]):
            found = self._running.get((each["id"], each["fence"]))
            if found is not None and found.ended_at is None:
                log.warning("a job is not this worker's any more", extra={"job_id": each["id"]})
                self._drop(found)

    async def _send_held(self, jobs: list[dict[str, Any]]) -> dict[str, Any]:
        body = {"worker_id": self.worker_id, "jobs": jobs}
        shape = partial(_having, "lease_expires_at", "cancel_requested", "lost", "released", "date")
        self._beats += 1
        return await self._client.send(Request("POST", "/worker/heartbeat", shape, body, dated=True))

    def _lose(self, reason: str) -> None:
        """Everything that ran is lost. The next claim registers the worker again. It keeps its id: a claim may be
        waiting now, and what that brings belongs to the id."""
        log.warning(f"the lease was lost: {reason}", extra={"jobs": len(self._running)})
        for run in list(self._running.values()):
            self._drop(run)

    # the end

    async def _finish(self) -> None:
        """Let jobs end for the grace period; give back the others, uncharged, and sign off."""
        assert self._grace_over is not None
        runs = list(self._running.values())
        for run in runs:
            run.ctx.worker_stops = True
        tasks = [run.task for run in runs if run.task is not None]
        if tasks:
            log.info(
                "stopping: waits for running jobs; a second signal gives them back and ends at once",
                extra={"jobs": [run.ctx.job_id for run in runs], "at_most_s": self._grace_s},
            )
            over = asyncio.create_task(self._grace_over.wait())
            everyone = asyncio.create_task(asyncio.wait(tasks))
            await asyncio.wait((over, everyone), timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
            everyone.cancel()
        left = [run for run in self._running.values() if run.task is not None and not run.task.done()]
        with suppress(HeadwayError, TimeoutError):
            async with asyncio.timeout(10.0):
                if left:  # does not wait for a heartbeat that may hang
                    await self._say(list(self._running.values()))
                for run in left:
                    self._drop(run)
                await self._ends.join()
                threads = [asyncio.wrap_future(run.thread) for run in left if run.thread is not None]
                if threads:
                    await asyncio.wait(threads, timeout=_LAST_MOMENT_S)
                for run in left:
                    if run.thread is not None and not run.thread.done():
                        log.warning(
                            "its function runs on after its job was given back, as a thread cannot be ended: let it "
                            "look at ctx.canceled, or end the process",
                            extra={"job_id": run.ctx.job_id, "kind": run.ctx.kind, "fence": run.ctx.fence},
                        )
                if any(run.dropped for run in runs):
                    # releases what it does not name any more: the second, what was claimed since the last heartbeat
                    await self._say([])
                    await self._say([])
                body = {"worker_id": self.worker_id, "leave": True}
                await self._client.send(Request("POST", "/worker/release", lambda said: said, body))


def _seconds(name: str, value: Duration) -> float:
    try:
        return seconds(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r} is not a duration such as 30s, 5m or a number of seconds") from None


def _having(*names_and_body: Any) -> dict[str, Any]:
    """The body, the last argument; raises `KeyError` or `TypeError` if it does not have these names."""
    *names, body = names_and_body
    return {name: body[name] for name in names}


def _is_refusal(error: ApiError | UnexpectedAnswer) -> bool:
    """Whether the same request would be refused again: by the API, or by a proxy that finds it too large. Any other
    answer that is not the API's may come from a proxy whose server is being replaced."""
    return error.status == 413 if isinstance(error, UnexpectedAnswer) else error.status < 500
