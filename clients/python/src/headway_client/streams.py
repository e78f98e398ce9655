"""A job's stream: reads server-sent events, resumes after a broken connection, ends with the job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from headway_client.errors import UnexpectedAnswer
from headway_client.requests import Request, answered, pause_s, sent, unreachable
from headway_client.settings import Settings
from headway_client.values import FINISHED, Attempt, Gone, Job, LogText, read

StreamEvent = Job | Attempt | LogText | Gone
"""What a stream tells: the job as it is now, an execution that ended, new text of its log, or that it was deleted."""

_SILENT_S = 20.0  # the server says something every few seconds, if only that it is there
# a \r at the very end may be the first half of a line's end
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


@dataclass(frozen=True)
class SentEvent:
    event: str
    data: str
    id: str  # the last one that the stream has named


class EventReader:
    """Parses a stream of bytes as the HTML standard says; an event that is not complete when it ends is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._event, self._id = "", ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[SentEvent]:
        self._rest += chunk
        while (end := _LINE_END.search(self._rest)) is not None:
            line, self._rest = self._rest[: end.start()].decode("utf-8", "replace"), self._rest[end.end() :]
            if line:
                self._take(line)
                continue
            if self._data:
                yield SentEvent(self._event or "message", "\n".join(self._data), self._id)
            self._event, self._data = "", []

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value


class JobStream:
    """Where one stream is: what was read last, how often it broke, whether it is over."""

    def __init__(self, request: Request[None], settings: Settings, *, follow: bool) -> None:
        self.over = False
        self._request = request
        self._settings = settings
        self._follow = follow
        self._last_id: str | None = None
        self._failures = 0
        self._reader = EventReader()

    def connect(self) -> dict[str, Any]:
        """What httpx2's `stream` takes."""
        self._reader = EventReader()
        given = sent(self._request, self._settings)
        given["headers"]["Accept"] = "text/event-stream"
        if self._last_id is not None:
            given["headers"]["Last-Event-ID"] = self._last_id
        return given | {"timeout": httpx2.Timeout(self._settings.timeout, read=self._settings.timeout + _SILENT_S)}

    def read(self, chunk: bytes) -> Iterator[StreamEvent]:
        """The events that are complete now; raises `UnexpectedAnswer` for one that is not as promised."""
        for each in self._reader.feed(chunk):
            self._failures = 0
            self._last_id = each.id or self._last_id
            found = _event(each)
            if found is None:
                continue
            ended = isinstance(found, Job) and found.status in FINISHED and not self._follow
            self.over = ended or isinstance(found, Gone)
            yield found
            if self.over:
                return

    def broken_s(self, error: Exception | None, response: httpx2.Response | None) -> float:
        """How long to wait before it connects again; raises the error if it does not."""
        self._failures += 1
        refused = response if response is not None and response.status_code != 200 and error is None else None
        rest = pause_s(self._request, self._settings, self._failures, refused)
        if rest is not None:
            return rest
        if refused is not None:
            answered(self._request, refused)
        raise unreachable(self._settings, error or RuntimeError("the server ended the stream"), self._failures)


def _event(said: SentEvent) -> StreamEvent | None:
    """None for an event of a newer server."""
    readers: dict[str, Callable[[Any], StreamEvent]] = {
        "job": lambda value: read(Job, value),
        "attempt": lambda value: read(Attempt, value),
        "log": lambda value: LogText(value["fence"], value["from"], value["to"], value["text"]),
        "gone": lambda _: Gone(),
    }
    if said.event not in readers:
        return None
    try:
        return readers[said.event](json.loads(said.data))
    except (ValueError, TypeError, KeyError) as error:
        raise UnexpectedAnswer(f'an event "{said.event}" of the stream is not as promised: {error!r}') from error
