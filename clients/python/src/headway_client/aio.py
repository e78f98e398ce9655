"""AsyncClient: the same verbs for asyncio. Made from client.py by tools/async_client.py: do not edit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from headway_client import verbs
from headway_client.errors import NotAllowed
from headway_client.outcomes import Duration
from headway_client.requests import Request, answered, options, pause_s, sent, unreachable
from headway_client.settings import Settings
from headway_client.streams import JobStream, StreamEvent
from headway_client.values import FINISHED, Attempt, Enqueued, Job, JournalRow, Outcome, Page

T = TypeVar("T")


class AsyncClient:
    """Asks one server, with one key; for one event loop. What is not given comes from HEADWAY_API,
    HEADWAY_KEY and the other settings. Requests that may be repeated are tried again when the server is away; those
    that create something carry an Idempotency-Key, so it is created once."""

    def __init__(
        self,
        api: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings.read(api=api, key=key, tenant=tenant)
        self._http = httpx2.AsyncClient(**options(self.settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def send(self, request: Request[T]) -> T:
        """Send a request, and try again where that is safe; raises an error of `headway_client.errors`."""
        request = request.keyed()
        tries = 0
        while True:
            tries += 1
            response = None
            try:
                response = await self._http.request(**sent(request, self.settings))
            except httpx2.TransportError as error:
                rest = pause_s(request, self.settings, tries, None)
                if rest is None:
                    raise unreachable(self.settings, error, tries) from error
            else:
                rest = pause_s(request, self.settings, tries, response)
                if rest is None:
                    return answered(request, response)
            await asyncio.sleep(rest)

    # jobs

    async def enqueue(self, kind: str, payload: Any = None, **options: Any) -> Enqueued:
        """Enqueue a job: `await client.enqueue("welcome", {"user_id": 7}, delay="5m")`. The payload is a dict, a
        dataclass or a pydantic model; options are those of the API."""
        return await self.send(verbs.enqueue(verbs.new_job(kind, payload, options)))

    async def enqueue_many(self, jobs: Sequence[dict[str, Any]]) -> list[Enqueued]:
        """Enqueue up to 1,000 jobs, all or none: {"kind": …, "payload": …, …} each."""
        bodies = [verbs.new_job(job["kind"], job.get("payload"), _rest(job)) for job in jobs]
        return await self.send(verbs.enqueue_many(bodies))

    async def get(self, job_id: str) -> Job:
        return await self.send(verbs.get(job_id))

    async def page(self, *, cursor: str | None = None, limit: int = 50, **filters: Any) -> Page[Job]:
        """One page of the jobs that match: `await client.page(status=["dead"], kind="welcome")`."""
        return await self.send(verbs.jobs(cursor, limit, filters))

    async def jobs(self, *, limit: int | None = 50, **filters: Any) -> AsyncIterator[Job]:
        """The first jobs that match, newest first, at most so many; None: all of them. They are asked for page by
        page, as you iterate."""
        cursor: str | None = None
        left = limit
        while True:
            page = await self.page(cursor=cursor, limit=verbs.page_size(left), **filters)
            for job in page.items:
                yield job
            cursor = page.next_cursor
            left = None if left is None else left - len(page.items)
            if cursor is None or left == 0:
                return
            filters.pop("offset", None)  # the cursor is past it

    async def result(self, job_id: str, *, wait: float = 0) -> Outcome:
        """How the job ended, or where it is after so many seconds."""
        end = time.monotonic() + wait
        while True:
            outcome = await self.send(verbs.result(job_id, max(end - time.monotonic(), 0.0)))
            if outcome.artifact is not None:
                return replace(outcome, value=await self.send(verbs.content(outcome.artifact)))
            if outcome.status in FINISHED or time.monotonic() >= end:
                return outcome

    async def attempts(self, job_id: str) -> list[Attempt]:
        return await self.send(verbs.attempts(job_id))

    async def why(self, job_id: str) -> list[str]:
        """Why the job is not running, or what it is doing."""
        return await self.send(verbs.why(job_id))

    async def journal(self, job_id: str, *, everything: bool = False) -> list[JournalRow]:
        """What a flow has recorded, in order; with `everything` also what does not count any more."""
        page = await self.send(verbs.journal(job_id, everything, None))
        rows = list(page.items)
        while page.next_cursor is not None:
            page = await self.send(verbs.journal(job_id, everything, page.next_cursor))
            rows += page.items
        return rows

    async def stream(self, job_id: str, *, follow: bool = False) -> AsyncIterator[StreamEvent]:
        """What happens to a job as it happens: a `Job` whenever it changes, an `Attempt` for each execution that ends,
        `LogText` for what it logs, `Gone` if it was deleted. A broken connection is made again and resumes. It ends
        once the job has ended or was deleted; with `follow`, only once it was deleted."""
        stream = JobStream(verbs.stream(job_id), self.settings, follow=follow)
        while not stream.over:
            response: httpx2.Response | None = None
            failure: Exception | None = None
            try:
                async with self._http.stream(**stream.connect()) as response:
                    if response.status_code != 200:
                        await response.aread()
                    else:
                        async for chunk in response.aiter_bytes():
                            for event in stream.read(chunk):
                                yield event
                            if stream.over:
                                return
            except httpx2.TransportError as error:
                failure = error
            await asyncio.sleep(stream.broken_s(failure, response))

    async def cancel(self, job_id: str, *, reason: str | None = None) -> str:
        """Cancel a job, or ask it to stop; gives its status."""
        return await self.send(verbs.cancel(job_id, reason))

    async def retry(self, job_id: str, **changes: Any) -> Job:
        """Run a finished job again; gives the job that runs. Takes scheduled_for, delay, max_attempts, payload and
        keep_place."""
        return await self.send(verbs.retry(job_id, changes))

    async def reschedule(
        self, job_id: str, *, scheduled_for: datetime | str | None = None, delay: Duration | None = None
    ) -> Job:
        """Give a waiting job another time, or run a finished one again at that time: `await client.reschedule(id,
        delay="1h")`."""
        when = verbs.when(scheduled_for, delay)
        try:
            return await self.change(job_id, **when)
        except NotAllowed as error:
            if error.status != 409:
                raise
        return await self.retry(job_id, **when)

    async def run(self, job_id: str) -> str:
        """Make a scheduled job due now; gives its status."""
        return await self.send(verbs.run(job_id))

    async def change(self, job_id: str, **changes: Any) -> Job:
        """Change a job that waits: priority, scheduled_for, queue, max_attempts, payload."""
        return await self.send(verbs.change(job_id, changes))

    async def move(
        self,
        job_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
    ) -> Job:
        """Move a waiting job in its train or queue: `before` or `after` another one, or `first` or `last`."""
        return await self.send(verbs.move(job_id, before, after, first, last))

    async def delete(self, job_id: str) -> None:
        """Delete a job that does not run, for good; one that waits is canceled first."""
        return await self.send(verbs.delete(job_id))

    # machines and events

    async def fork(
        self,
        job_id: str,
        at: int | None = None,
        state: Any = None,
        *,
        step: str | None = None,
        before: str | int | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> Job:
        """Start a new machine from a step of another: the one that execution `at` ran (by default the last), or `step`,
        with the state that it began with, or with `state`. Of a flow, one that goes on `before` an operation, with
        `results` in place of those recorded."""
        return await self.send(verbs.fork(job_id, at, state, step, before, results))

    async def signal(self, job_id: str, name: str, payload: Any = None, *, dedup_key: str | None = None) -> str:
        """Send a signal to a machine; gives the signal's id."""
        return await self.send(verbs.signal(job_id, name, payload, dedup_key))

    async def emit(self, name: str, payload: Any = None, *, correlation_id: str | None = None) -> str:
        """Store an event, of which triggers make jobs; gives its id."""
        return await self.send(verbs.emit(name, payload, correlation_id))


def _rest(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name not in ("kind", "payload")}
