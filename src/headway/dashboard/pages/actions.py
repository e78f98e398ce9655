"""Actions: what will happen, the question, and doing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from headway.api.wire.problems import Refused
from headway.dashboard.action_table import ACTIONS, Action
from headway.dashboard.forms import Refusal
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.errors import NotFound

pages = Pages()


@pages.get("/do/{action}")
async def ask_before(visit: Visit, action: str) -> Page:
    """What an action will do, to what, and how to do the same elsewhere."""
    found = _found(action)
    return Page("action.html", _values(visit, found, _params(found, visit.query), visit.query))


@pages.post("/do/{action}")
async def do(visit: Visit, form: Form, action: str) -> Page | Redirect:
    found = _found(action)
    params = _params(found, form)
    before = await _time_before(visit, found, params)
    try:
        answer = await visit.ask(found.method, found.path, params=params, body=found.body(form))
    except Refusal as error:
        if not found.fields or isinstance(error, NotFound) or getattr(error, "status", 422) in (401, 403, 404):
            raise
        return Page("action.html", _values(visit, found, params, form, wrong=str(error)), 422)
    to = visit.back(form.get("back")) if found.leads_to is None else visit.url(found.leads_to)
    if found.opens is not None:
        to = visit.url(found.opens.format(id=answer["id"]))
    elif "key" in params and await _was_last_car(visit, to, params["key"]):
        to = visit.url("/trains")
    return Redirect(to, found.done.format(**params), undo=_undo(found, params, before, answer))


def _values(
    visit: Visit, action: Action, params: Mapping[str, str], given: Mapping[str, str], *, wrong: str = ""
) -> dict[str, Any]:
    return {
        "action": action,
        "params": params,
        "given": given,
        "says": action.says.format(**params),
        "wrong": wrong,
        "back": visit.back(given.get("back")),
        "copied": action.copied(visit, params, visit.origin),
    }


async def _was_last_car(visit: Visit, to: str, key: str) -> bool:
    """Whether this leads to a train that is gone: one is there as long as it has a car or is on hold."""
    if unquote(to.partition("?")[0]) != visit.url(f"/trains/{key}"):
        return False
    try:
        await visit.ask("GET", "/trains/{key}", key=key)
    except NotFound:
        return True
    return False


async def _time_before(visit: Visit, action: Action, params: Mapping[str, str]) -> str | None:
    """When a job is due, before an action makes it due at another time or not at all."""
    if action.name not in ("cancel-job", "run-job") or not action.allowed(visit):
        return None
    job = await visit.ask("GET", "/jobs/{id}", params=params)
    return job["scheduled_for"].isoformat() if job["status"] == "scheduled" else None


def _undo(
    action: Action, params: Mapping[str, str], before: str | None, answer: Any
) -> tuple[str, Mapping[str, str]] | None:
    """The action that undoes it, if there is one: a request to stop a running job cannot be withdrawn."""
    if action.undo is None or (action.name == "cancel-job" and answer.status != "canceled"):
        return None
    if action.name == "run-job" and before is None:
        return None
    return action.undo, params if before is None else {**params, "scheduled_for": before}


def _found(name: str) -> Action:
    if name not in ACTIONS:
        raise Refused(404, "there is no such action")
    return ACTIONS[name]


def _params(action: Action, given: Mapping[str, str]) -> dict[str, str]:
    names = [each.split("}")[0] for each in action.path.split("{")[1:]]
    missing = [name for name in names if not given.get(name)]
    if missing:
        raise Refused(400, f"the request does not say which {missing[0]}")
    return {name: given[name] for name in names}
