"""Actions: what will happen, the question, and doing it."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api.wire.problems import Refused
from headway.dashboard.action_table import ACTIONS, Action
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/do/{action}")
async def ask_before(visit: Visit, action: str) -> Page:
    """What an action will do, to what, and how to do the same elsewhere."""
    found = _found(action)
    params = _params(found, visit.query)
    values = {
        "action": found,
        "params": params,
        "given": visit.query,
        "says": found.says.format(**params),
        "back": visit.query.get("back") or visit.url("/"),
        "copied": found.copied(visit, params, visit.origin),
    }
    return Page("action.html", values)


@pages.post("/do/{action}")
async def do(visit: Visit, form: Form, action: str) -> Redirect:
    found = _found(action)
    params = _params(found, form)
    await visit.ask(found.method, found.path, params=params, body=found.body(form))
    to = visit.back(form.get("back")) if found.leads_to is None else visit.url(found.leads_to)
    return Redirect(to, found.done.format(**params))


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
