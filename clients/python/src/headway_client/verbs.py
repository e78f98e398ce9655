"""The verbs, as requests: what to ask and how to read the answer. Both clients send these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from headway_client.convert import to_json
from headway_client.outcomes import Duration, options_as_json
from headway_client.requests import Request
from headway_client.values import Artifact, Attempt, Enqueued, Job, JournalRow, Outcome, Page, read

_LONGEST_WAIT_S = 30.0
_LONGEST_PAGE = 200


def new_job(kind: str, payload: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a job to enqueue."""
    body = options_as_json({name: value for name, value in options.items() if value is not None})
    return {"kind": kind, "payload": {} if payload is None else to_json(payload), **body}


def enqueue(job: dict[str, Any]) -> Request[Enqueued]:
    return Request("POST", "/jobs", lambda said: read(Enqueued, said), job, creates=True)


def enqueue_many(jobs: Sequence[dict[str, Any]]) -> Request[list[Enqueued]]:
    def shape(said: Any) -> list[Enqueued]:
        return [read(Enqueued, each) for each in said["jobs"]]

    return Request("POST", "/jobs/batch", shape, {"jobs": list(jobs)}, creates=True)


def get(job_id: str) -> Request[Job]:
    return Request("GET", f"/jobs/{_quoted(job_id)}", lambda said: read(Job, said))


def jobs(cursor: str | None, limit: int, filters: Mapping[str, Any]) -> Request[Page[Job]]:
    def shape(said: Any) -> Page[Job]:
        return Page([read(Job, each) for each in said["items"]], said["next_cursor"])

    query = {name: to_json(value) for name, value in filters.items()} | {"cursor": cursor, "limit": limit}
    return Request("GET", "/jobs", shape, query=query)


def page_size(left: int | None) -> int:
    return _LONGEST_PAGE if left is None else min(left, _LONGEST_PAGE)


def result(job_id: str, wait_s: float) -> Request[Outcome]:
    wait_s = min(wait_s, _LONGEST_WAIT_S)
    return Request(
        "GET",
        f"/jobs/{_quoted(job_id)}/result",
        lambda said: Outcome(
            said["status"],
            said.get("value", said.get("result")),
            said.get("error"),
            None if said.get("artifact") is None else read(Artifact, said["artifact"]),
        ),
        query={"wait": wait_s},
        wait_s=wait_s,
    )


def content(artifact: Artifact) -> Request[Any]:
    """What a file of JSON has."""
    return Request("GET", f"/artifacts/{_quoted(artifact.id)}/content", lambda said: said)


def attempts(job_id: str) -> Request[list[Attempt]]:
    def shape(said: Any) -> list[Attempt]:
        return [read(Attempt, each) for each in said["items"]]

    return Request("GET", f"/jobs/{_quoted(job_id)}/attempts", shape)


def why(job_id: str) -> Request[list[str]]:
    return Request("GET", f"/jobs/{_quoted(job_id)}/why", lambda said: list(said["reasons"]))


def journal(job_id: str, everything: bool, cursor: str | None) -> Request[Page[JournalRow]]:
    def shape(said: Any) -> Page[JournalRow]:
        return Page([read(JournalRow, each) for each in said["items"]], said["next_cursor"])

    query = {"everything": "true" if everything else None, "limit": _LONGEST_PAGE, "cursor": cursor}
    return Request("GET", f"/jobs/{_quoted(job_id)}/journal", shape, query=query)


def cancel(job_id: str, reason: str | None) -> Request[str]:
    body = {} if reason is None else {"reason": reason}
    return Request("POST", f"/jobs/{_quoted(job_id)}/cancel", lambda said: str(said["status"]), body)


def retry(job_id: str, changes: Mapping[str, Any]) -> Request[Job]:
    body = options_as_json(changes)
    return Request("POST", f"/jobs/{_quoted(job_id)}/retry", lambda said: read(Job, said), body, creates=True)


def fork(
    job_id: str,
    at: int | None,
    state: Any,
    step: str | None,
    before: str | int | None,
    results: Mapping[str, Any] | None,
) -> Request[Job]:
    said = {"at": at, "state": state, "step": step, "before": before, "results": results}
    body = {name: to_json(value) for name, value in said.items() if value is not None}
    return Request("POST", f"/jobs/{_quoted(job_id)}/fork", lambda said: read(Job, said), body, creates=True)


def when(scheduled_for: datetime | str | None, delay: Duration | None) -> dict[str, Any]:
    """When a job is to run, as `change` and `retry` take it."""
    if (scheduled_for is None) == (delay is None):
        raise TypeError("give a time, scheduled_for=…, or a while, delay=…")
    return {"scheduled_for": scheduled_for} if delay is None else {"delay": delay}


def stream(job_id: str) -> Request[None]:
    return Request("GET", f"/jobs/{_quoted(job_id)}/stream", lambda _: None)


def run(job_id: str) -> Request[str]:
    return Request("POST", f"/jobs/{_quoted(job_id)}/run", lambda said: str(said["status"]))


def change(job_id: str, changes: Mapping[str, Any]) -> Request[Job]:
    return Request("PATCH", f"/jobs/{_quoted(job_id)}", lambda said: read(Job, said), options_as_json(changes))


def move(job_id: str, before: str | None, after: str | None, first: bool, last: bool) -> Request[Job]:
    body = {"before": before, "after": after, "first": first, "last": last}
    return Request("POST", f"/jobs/{_quoted(job_id)}/move", lambda said: read(Job, said), body)


def delete(job_id: str) -> Request[None]:
    return Request("DELETE", f"/jobs/{_quoted(job_id)}", lambda _: None, repeatable=False)


def signal(job_id: str, name: str, payload: Any, dedup_key: str | None) -> Request[str]:
    body: dict[str, Any] = {"name": name}
    if payload is not None:
        body["payload"] = to_json(payload)
    if dedup_key is not None:
        body["dedup_key"] = dedup_key
    return Request("POST", f"/jobs/{_quoted(job_id)}/signal", lambda said: str(said["id"]), body, creates=True)


def emit(name: str, payload: Any, correlation_id: str | None) -> Request[str]:
    body: dict[str, Any] = {"name": name, "payload": {} if payload is None else to_json(payload)}
    if correlation_id is not None:
        body["correlation_id"] = correlation_id
    return Request("POST", "/events", lambda said: str(said["id"]), body, creates=True)


def _quoted(job_id: str) -> str:
    """As one part of a path, whatever it is: "../keys" is the name of no job."""
    return quote(job_id, safe="")
