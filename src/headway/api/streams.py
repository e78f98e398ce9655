"""Streams: what happens to jobs, as server-sent events. One poller per tenant asks for all of its listeners."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.api.wire.problems import Refused
from headway.api.wire.views import attempt_view, job_view
from headway.app.verbs import Verbs
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.job import Job, Watched

_log = get_logger("headway.api")

EVERY_S = 1.0
"""How often a poller asks."""
_CHECK_S = 4.0
"""How often a stream looks whether its key is still valid."""
_ALIVE_S = 15.0
"""How long it may say nothing: proxies close connections on which nothing comes, mostly after a minute."""
_LAST_S = 10.0
"""How long a reader may take for what is left when its stream ends."""
ABORT = "headway.abort"
"""The key of a scope that has a function to end its connection at once."""
_MOST_EVENTS = 100
_MOST_BYTES = 4 * 2**20
"""A reader that is further behind is dropped; its browser comes back by itself, and resumes."""
_SENT_AT_ONCE = 65_536  # bytes, and the rest of an event: a copy of its own for each reader
_MOST_LISTENERS = 2_000
_MOST_OF_TENANT = 1_000  # so that no tenant takes all of them
_LAST_ID = re.compile(r"(\d{1,9})-(\d{1,15})\Z")
_encode = msgspec.json.Encoder().encode


class Listener:
    """One open stream: which job, how much of it the client has seen, and what is still to be sent.

    The id of an event says where it leaves the client: what ended before the execution `fence` was told, and so was
    the log of `fence` up to `offset`.
    """

    def __init__(self, job: Job, last_id: str | None, *, only_log: bool, queues: tuple[str, ...] = ()) -> None:
        """`queues` are those that the client may see; none: all."""
        self.job_id = job.id
        self.only_log = only_log
        self.dropped = False
        self.seen = _without_log(watched_of(job))
        self.log_end: int | None = None  # up to where it was told the log that the job has
        self._queues = queues
        self._gone = False  # its job is: what is still to be sent is the last
        self._to_send: deque[tuple[bytes, bytes]] = deque()  # heads and data; what many are told is in memory once
        self._bytes = 0
        self._waiting = asyncio.Event()
        given = _LAST_ID.match(last_id or "")
        self._fence, self._offset = (int(given[1]), int(given[2])) if given else (job.fence, 0)
        ended = _ended(self.seen)
        if self._fence > ended + 1:
            given, self._fence, self._offset = None, job.fence, 0  # not of this job
        # the last execution that it knows to have ended
        self._ended = self._fence - 1 if given else ended

    async def next(self) -> bytes:
        """What to send next; waits for it."""
        while not self._to_send:
            self._waiting.clear()
            await self._waiting.wait()
        sent: list[bytes] = []
        size = 0
        while self._to_send and size < _SENT_AT_ONCE:
            head, said = self._to_send.popleft()
            sent += (head, said, b"\n\n")
            size += len(said)
        self._bytes -= size
        return b"".join(sent)

    @property
    def over(self) -> bool:
        return self._gone and not self._to_send

    def tell(self, now: Watched, attempts: list[Any], job: bytes | None, logs: dict[int, bytes] | None = None) -> None:
        """What is new: of executions that ended, of the log, of the job as `said_of` has it. `logs` is what others
        were told of the log, by where it begins."""
        if self._queues and now.queue not in self._queues:
            self.tell_gone()
            return
        # an execution's log is told after those before it have ended, and before it has
        self._tell_attempts(attempts, now.fence - 1)
        self._tell_log(now.fence, now.log_tail, now.log_end, {} if logs is None else logs)
        self._tell_attempts(attempts, _ended(now))
        self._pass(_ended(now))
        self.seen, self.log_end = _without_log(now), now.log_end
        if job is not None and not self.only_log:
            self._say("job", job)

    def _tell_attempts(self, attempts: list[Any], last: int) -> None:
        """Those up to this one: others may have ended since the job was looked at, which has not all of their log."""
        for each in attempts:
            if each.finished_at is not None and self._ended < each.fence <= last:
                self._pass(each.fence)
                if not self.only_log:
                    self._say("attempt", _one_line(attempt_view(each)))

    def _pass(self, fence: int) -> None:
        """This execution is over, and everything of it was told."""
        self._ended = max(self._ended, fence)
        if self._fence <= fence:
            self._fence, self._offset = fence + 1, 0

    def _tell_log(self, fence: int, tail: str | None, end: int | None, said: dict[int, bytes]) -> None:
        """The part of the log that is new; another execution begins a new log."""
        if fence > self._fence:
            self._fence, self._offset = fence, 0
        if tail is None or fence < self._fence:
            return
        last = len(tail) if end is None else end
        first = max(self._offset, last - len(tail))
        if first < last:
            self._offset = last
            if first not in said:
                text = tail[first - (last - len(tail)) :]
                said[first] = _one_line({"fence": fence, "from": first, "to": last, "text": text})
            self._say("log", said[first])

    def tell_gone(self) -> None:
        """Its job was deleted: nothing comes after this."""
        if not self._gone:
            self._gone = True
            self._say("gone", b"{}")

    def _say(self, name: str, said: bytes) -> None:
        if self.dropped:
            return  # a later event would tell the reader to resume after it, and what was cleared would be lost
        self._bytes += len(said)
        if self._bytes > _MOST_BYTES or len(self._to_send) >= _MOST_EVENTS:
            self.dropped = True
            self._to_send.clear()
        else:
            head = b"event: %b\nid: %d-%d\ndata: " % (name.encode(), self._fence, self._offset)
            self._to_send.append((head, said))
        self._waiting.set()


def said_of(job: Job) -> bytes:
    """What listeners are told when the job has changed."""
    return _one_line(job_view(job))


def _one_line(value: Any) -> bytes:
    # stored JSON may have line breaks between its parts, which would end an event's data
    return bytes(_encode(value)).replace(b"\r", b" ").replace(b"\n", b" ")


def watched_of(job: Job) -> Watched:
    """What a look at the job would show."""
    return Watched(**{name: getattr(job, name) for name in Watched.__struct_fields__})


def _without_log(seen: Watched) -> Watched:
    return msgspec.structs.replace(seen, log_tail=None, log_end=None)


def _ended(seen: Watched) -> int:
    """The last execution that has ended."""
    return seen.fence - 1 if seen.status == "running" else seen.fence


class Streams:
    """The open streams of a process."""

    def __init__(self) -> None:
        self._pollers: dict[str | None, _Poller] = {}

    def listen(self, verbs: Verbs, listener: Listener) -> None:
        if sum(len(each.listeners) for each in self._pollers.values()) >= _MOST_LISTENERS:
            raise Refused(429, f"this server has {_MOST_LISTENERS:,} open streams", headers={"Retry-After": "30"})
        poller = self._pollers.get(verbs.tenant_id)
        if poller is not None and len(poller.listeners) >= _MOST_OF_TENANT:
            raise Refused(429, f"this tenant has {_MOST_OF_TENANT:,} open streams", headers={"Retry-After": "30"})
        if poller is None:
            poller = self._pollers[verbs.tenant_id] = _Poller(verbs)
        poller.listeners.add(listener)

    def leave(self, verbs: Verbs, listener: Listener) -> None:
        poller = self._pollers.get(verbs.tenant_id)
        if poller is not None:
            poller.listeners.discard(listener)
            if not poller.listeners:
                del self._pollers[verbs.tenant_id]
                poller.end()

    async def aclose(self) -> None:
        ended = [poller.end() for poller in self._pollers.values()]
        self._pollers.clear()
        await asyncio.gather(*ended, return_exceptions=True)


class _Poller:
    """Asks once a second for all jobs that somebody listens to, with one query; again for those that changed."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self.listeners: set[Listener] = set()
        self._task = asyncio.create_task(self._run())

    def end(self) -> asyncio.Task[None]:
        """Stop asking; gives the task that is about to end."""
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._look()
            except HeadwayError as error:
                _log.warning("streams wait for the database", error=str(error))
            except Exception as error:
                _log.error("a round of streams failed", exc_info=error)

    async def _look(self) -> None:
        listeners: dict[str, list[Listener]] = {}
        for each in self.listeners:
            listeners.setdefault(each.job_id, []).append(each)
        now = await self._watched({job_id: _known_end(of_job) for job_id, of_job in listeners.items()})
        restarted: dict[str, int | None] = {
            job_id: None
            for job_id, watched in now.items()
            if watched.log_end is not None
            and watched.log_tail is None
            and any(each.seen.fence != watched.fence for each in listeners[job_id])
        }
        if restarted:
            now |= await self._watched(restarted)  # the new log ends where the old one did
        for job_id in listeners.keys() - now.keys():
            for each in listeners[job_id]:
                each.tell_gone()
        # each by what it was told itself: others may have begun before or after a change
        news = {
            job_id: [each for each in listeners[job_id] if each.seen != _without_log(watched)]
            for job_id, watched in now.items()
        }
        jobs = {job.id: job for job in await self._read([job_id for job_id, of_job in news.items() if of_job])}
        # as they are by now: a client that is told that its job is over expects to have been told of every attempt
        now |= {job.id: watched_of(job) for job in jobs.values()}
        said = {job.id: said_of(job) for job in jobs.values()}
        for job_id, watched in now.items():
            ended = any(_ended(each.seen) < _ended(watched) for each in news[job_id])
            attempts = await self._verbs.aattempts(job_id, raw=True) if ended else []
            logs: dict[int, bytes] = {}
            for each in listeners[job_id]:
                each.tell(watched, attempts, said.get(job_id) if each in news[job_id] else None, logs)

    async def _watched(self, log_ends: dict[str, int | None]) -> dict[str, Watched]:
        return {each.id: each for each in await self._verbs.awatched(log_ends)}

    async def _read(self, ids: list[str]) -> list[Job]:
        return await self._verbs.ajobs(ids=ids, limit=len(ids), raw=True) if ids else []


def _known_end(listeners: list[Listener]) -> int | None:
    """Up to where all of them were told the log; None: not all know the same of it."""
    ends = {each.log_end for each in listeners}
    return ends.pop() if len(ends) == 1 else None


class Sent(Protocol):
    """What a stream sends."""

    dropped: bool  # its reader is too far behind

    @property
    def over(self) -> bool:
        """Whether what was given last is the last."""
        ...

    async def next(self) -> bytes: ...


class EventStream(Response):
    """Sends a listener's events until the client goes away, falls behind, loses its key, its job is deleted, or
    the server ends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        listener: Sent,
        *,
        leave: Callable[[], None],
        allowed: Callable[[], Awaitable[Any]],
        stopping: asyncio.Event,
    ) -> None:
        self.status_code = 200
        self.background = None
        self._listener, self._leave, self._allowed, self._stopping = listener, leave, allowed, stopping
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # the client takes the head for all, and may send its next request
            self._leave()
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        sending = asyncio.create_task(self._send(send))
        ends = {sending, *map(asyncio.create_task, (self._end(), _disconnected(receive), self._stopped()))}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave()
            for each in ends:
                each.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        if not self._listener.dropped:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await send({"type": "http.response.body", "body": b""})
                    return
        # it does not read: closed in good order, the connection would wait for it forever, with what it was sent
        if (abort := scope.get(ABORT)) is not None:
            abort()
            await asyncio.sleep(0)  # so that the server knows

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = False
        while not last:
            try:
                async with asyncio.timeout(_ALIVE_S):
                    text = await self._listener.next()
            except TimeoutError:
                text = b": nothing new\n\n"  # a comment
            last = self._listener.over
            await send({"type": "http.response.body", "body": text, "more_body": True})

    async def _end(self) -> None:
        while not self._listener.dropped:
            await asyncio.sleep(_CHECK_S)
            try:
                await self._allowed()
            except Refused:
                return
            except HeadwayError:
                continue  # the database is away: nothing is known

    async def _stopped(self) -> None:
        await self._stopping.wait()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
