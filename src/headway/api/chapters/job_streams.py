"""Jobs: their log, and what happens to them as it happens."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.api.access.narrowed import visible_job
from headway.api.call import Call
from headway.api.routes import READERS, Routes
from headway.api.streams import EventStream, Listener, said_of, watched_of
from headway.model.job import Job
from headway.model.status import Status

routes = Routes("streams")


class Log(msgspec.Struct):
    """The end of a job's log: the characters `from` to `to` of what its execution `fence` has logged."""

    id: str
    fence: int
    status: Status
    begin: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    text: str


@routes.get("/jobs/{id}/logs", roles=READERS, answers={200: Log}, problems=(404, 429), streams=True, waits=True)
async def get_log(call: Call[None, None]) -> Any:
    """Give the end of a job's log; with `Accept: text/event-stream` it follows."""
    job = await visible_job(call)
    if "text/event-stream" in call.headers.get("accept", ""):
        return await _stream(call, job, only_log=True)
    text = job.log_tail or ""
    end = len(text) if job.log_end is None else job.log_end
    return Log(job.id, job.fence, job.status, end - len(text), end, text)


@routes.get("/jobs/{id}/stream", roles=READERS, answers={200: None}, problems=(404, 429), streams=True, waits=True)
async def stream_job(call: Call[None, None]) -> EventStream:
    """Send a job whenever it changes, its executions as they end, and its log; `Last-Event-ID` resumes."""
    return await _stream(call, await visible_job(call), only_log=False)


async def _stream(call: Call[None, None], job: Job, *, only_log: bool) -> EventStream:
    last_id = call.headers.get("last-event-id")
    listener = Listener(job, last_id, only_log=only_log, queues=call.key.queues)
    attempts = [] if last_id is None else await call.verbs.aattempts(job.id, raw=True)
    listener.tell(watched_of(job), attempts, said_of(job))
    call.server.streams.listen(call.verbs, listener)
    return EventStream(
        listener,
        leave=lambda: call.server.streams.leave(call.verbs, listener),
        allowed=call.allowed,
        stopping=call.server.stopping,
    )
