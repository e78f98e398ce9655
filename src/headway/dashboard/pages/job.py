"""One job: where it is, why, what it did, and what can be done."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from markupsafe import Markup

from headway.api.routes import PREFIX
from headway.api.wire.problems import Refused
from headway.dashboard.action_table import ACTIONS, actions_for
from headway.dashboard.drawn.machine import machine_graph
from headway.dashboard.drawn.timeline import attempts_timeline
from headway.dashboard.shown.json_text import as_text, is_long, json_beginning
from headway.dashboard.shown.numbers import attempt
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.errors import NotFound
from headway.model.spill import PAYLOAD_NAME, Spilled, is_result_name, may_refer
from headway.model.status import FINISHED
from headway.shell import command, quoted

pages = Pages()

_MOST_STEPS = 50  # whose states are shown
_BEGINNING = 16 * 1024  # bytes of a value that is an artifact

_TITLES = {
    "queued": "Why it is not running yet",
    "scheduled": "Why it is not running yet",
    "held": "What it waits for",
    "waiting": "What it waits for",
    "running": "What it is doing",
    "dead": "Why it ended",
    "failed": "Why it ended",
    "canceled": "Why it ended",
    "succeeded": "",
}


@pages.get("/jobs/{id}")
async def show_job(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    job = await visit.ask("GET", "/jobs/{id}", id=id)
    attempts = (await visit.ask("GET", "/jobs/{id}/attempts", id=id)).items
    extra = await asyncio.gather(
        _maybe(visit, "/jobs/{id}/why", id),
        _maybe(visit, "/jobs/{id}/chain", id),
        _maybe(visit, "/jobs/{id}/audit", id),
        _maybe(visit, "/jobs/{id}/children", id) if job["step"] else _nothing(),
        _maybe(visit, "/jobs/{id}/signals", id) if job["step"] else _nothing(),
        visit.ask("GET", "/errors", query={"job": id}) if job["error"] and visit.may("GET", "/errors") else _nothing(),
        _maybe(visit, "/jobs/{id}/history", id) if job["step"] else _nothing(),
    )
    why, chain, audit, children, signals, alike, history = extra
    values = {
        "job": job,
        "payload": as_text(job["payload"]),
        "is_long": is_long,
        "result": as_text(job["result"]),
        "state": as_text(job["state"]),
        "reasons": [] if why is None else why.reasons,
        "why_title": _TITLES[job["status"]],
        "attempts": list(reversed(attempts)),
        "artifacts": [found for each in reversed(attempts) for found in each["artifacts"]],
        "payload_file": await _payload_file(visit, job),
        "result_file": _result_file(job, attempts),
        "is_over": job["status"] in FINISHED,
        "has_steps": bool(job["step"]) or any(each["step"] for each in attempts),
        "timeline": attempts_timeline(attempts, visit.now),
        "history": [] if history is None else list(reversed(history.items))[:_MOST_STEPS],
        "as_text": as_text,
        "signals": [] if signals is None else signals.items,
        "alike": next(iter(alike.items), None) if alike is not None else None,  # the group that its error is in
        "graph": await _graph(visit, job, attempts),
        "about": _about(visit, job),
        "related": _related(job, chain, children),
        "audit": [] if audit is None else audit.items,
        "offered": actions_for(job),
        "actions": ACTIONS,
        "copied": {
            "CLI": command("jobs show", job["id"]),
            "curl": 'curl -H "Authorization: Bearer $HEADWAY_KEY" '
            + quoted([f"{visit.origin}{PREFIX}/jobs/{job['id']}"]),
            "Python": f'app.get("{job["id"]}")',
        },
    }
    return Page("job.html", values)


@pages.get("/jobs/{id}/log")
async def show_log(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    """Its attempts and the end of its log, beside the list that it is in."""
    job = await visit.ask("GET", "/jobs/{id}", id=id)
    attempts = (await visit.ask("GET", "/jobs/{id}/attempts", id=id)).items
    return Page("log.html", {"job": job, "attempts": attempts, "timeline": attempts_timeline(attempts, visit.now)})


@pages.get("/jobs/{id}/beginning/{of}")
async def show_beginning(visit: Visit, id: str, of: str) -> Page:  # noqa: A002 - the path's own word
    """How a payload or result begins that is too large for the job's row. Asked for by hand: its bytes may be far."""
    job = await visit.ask("GET", "/jobs/{id}", id=id)
    if of == "payload":
        file = await _payload_file(visit, job)
    else:
        file = _result_file(job, (await visit.ask("GET", "/jobs/{id}/attempts", id=id)).items)
    if file is None:
        raise Refused(404, f"its {of} is not an artifact"[:80])
    text = (await visit.beginning(file["id"], _BEGINNING)).decode(errors="ignore")
    return Page(
        "beginning.html", {"job": job, "of": of, "file": file, "text": json_beginning(text), "shown": len(text)}
    )


def _result_file(job: Any, attempts: list[Any]) -> Any:
    """The artifact that has the result, where that is too large for the job's row."""
    said = as_text(job["result"]) or ""
    last = (each["artifacts"] for each in attempts if each["fence"] == job["fence"])
    stored = [each for of_it in last for each in of_it if is_result_name(each["name"])]
    return next((each for each in stored if each["id"] in said), None)


async def _payload_file(visit: Visit, job: Any) -> Any:
    """The same of the payload; what a caller gave that looks like a reference is none."""
    said = as_text(job["payload"]) or ""
    if not may_refer(said) or not visit.may("GET", "/artifacts/{id}"):
        return None
    try:
        found = await visit.ask("GET", "/artifacts/{id}", id=msgspec.json.decode(said, type=Spilled).id)
    except (Refused, NotFound, msgspec.DecodeError):
        return None
    return found if found["job_id"] == job["id"] and found["name"] == PAYLOAD_NAME else None


async def _maybe(visit: Visit, path: str, job_id: str) -> Any:
    """What the visitor may see of it, if anything."""
    return await visit.ask("GET", path, id=job_id) if visit.may("GET", path) else None


async def _nothing() -> None:
    return None


async def _graph(visit: Visit, job: Any, attempts: list[Any]) -> Markup | None:
    if not job["step"] or not visit.may("GET", "/machines/{kind}/graph"):
        return None
    try:
        found = await visit.ask("GET", "/machines/{kind}/graph", kind=job["kind"])
    except (Refused, NotFound):
        return None  # this server has none of the application's code
    return machine_graph(found.graph, now=job["step"], taken=[each["step"] for each in attempts if each["step"]])


def _related(job: Any, chain: Any, children: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if chain is not None:
        ids = [each["id"] for each in chain.items]
        at = ids.index(job["id"]) if job["id"] in ids else 0
        found += [
            ("it retries" if index < at else "retries it", each)
            for index, each in enumerate(chain.items)
            if index != at
        ]
    return found + [("child", each) for each in ([] if children is None else children.items)]


def _about(visit: Visit, job: Any) -> list[tuple[str, Any, str | None]]:
    """What else is known of it; what is not set is left out."""
    url = visit.url
    facts: list[tuple[str, Any, str | None]] = [
        ("Id", job["id"], None),
        ("Priority", job["priority"], None),
        ("Source", job["source"], None),
        ("Made by", job["created_by"], None),
        ("Train", job["train"], visit.train(job["tenant"], job["train"]) if job["train"] else None),
        ("Group", job["group_id"], url("/jobs", group=job["group_id"]) if job["group_id"] else None),
        ("Partition", job["partition"], None),
        ("Unique key", job["unique_key"], url("/jobs", unique_key=job["unique_key"]) if job["unique_key"] else None),
        ("Idempotency key", job["idempotency_key"], None),
        ("Correlation", job["correlation_id"], url("/jobs", correlation_id=job["correlation_id"])),
        ("Trace", job["trace_id"], None),
        ("Scheduled for", job["scheduled_for"], None),
        ("Expires", job["expires_at"], None),
        ("Timeout", None if job["timeout_ms"] is None else f"{job['timeout_ms'] / 1_000:g} s", None),
        ("Attempts", f"{attempt(job['tries'], job['status'])} of {job['max_attempts']}", None),
        ("Losses", f"{job['losses']} of {job['max_losses']}" if job["losses"] else None, None),
        ("Delivery", job["delivery"].replace("_", " "), None),
        ("Machine version", job["version"], None),
        ("Parent", job["parent_id"], url(f"/jobs/{job['parent_id']}") if job["parent_id"] else None),
        ("Forked from", job["forked_from"], url(f"/jobs/{job['forked_from']}") if job["forked_from"] else None),
        ("Trigger", job["trigger_id"], url(f"/triggers/{job['trigger_id']}") if job["trigger_id"] else None),
        ("Template", job["template_id"], None),
        ("Tags", ", ".join(job["tags"]), None),
        ("Meta", as_text(job["meta"]) if job["meta"] is not None else None, None),
    ]
    return [(name, value, href) for name, value, href in facts if value not in (None, "")]
