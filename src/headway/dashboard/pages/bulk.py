"""Many jobs at once: what would happen to how many, the question, and doing it in pieces."""

from __future__ import annotations

import json
from typing import Any

from headway.api.routes import PREFIX
from headway.api.wire.problems import Refused
from headway.dashboard.list_table import arguments, curl, filter_flags, of_tenant_in_cli, of_tenant_in_python
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.shell import quoted

pages = Pages()

_TYPED_FROM = 100
"""Above this many, the person types the number."""
_PIECES = 10  # of 1,000 in a request
_SAYS = {
    "cancel": "They will not run; those that run now are asked to stop.",
    "retry": "They run again, with all of their attempts.",
    "delete": "They and their attempts are deleted for good.",
}


@pages.post("/bulk")
async def ask_before(visit: Visit, form: Form) -> Page | Redirect:
    """A dry run: nothing happens yet."""
    action = form.get("action", "")
    if action not in _SAYS:
        raise Refused(400, "the form does not say what to do")
    ids = form.getlist("id")
    back = visit.back(form.get("back"))
    if form.get("of") == "selected":
        if not ids:
            return Redirect(back, "No job was selected.", "bad")
        which = {"ids": ids}
    else:
        which = _filter(form.get("filter", "{}"))
    asked = {"action": action, "filter": which, "dry_run": True}
    found = await visit.ask("POST", "/jobs/actions", body=asked)
    if not found.count:
        return Redirect(back, "No job that matches can be changed so.", "bad")
    values = _values(action, back, count=found.count, token=found.token, sample=found.sample, more=found.more)
    return Page("bulk.html", values | {"copied": _copied(visit, action, which)})


@pages.post("/bulk/do")
async def do(visit: Visit, form: Form) -> Page | Redirect:
    action, back = form.get("action", ""), visit.back(form.get("back"))
    if action not in _SAYS:
        raise Refused(400, "the form does not say what to do")
    count = int(form.get("count", "0") or 0)
    if count > _TYPED_FROM and form.get("typed", "").replace(",", "").strip() != str(count):
        raise Refused(422, f"type {count} to confirm: nothing was done", fix="go back, and type the number of jobs")
    done, skipped = int(form.get("done", 0) or 0), int(form.get("skipped", 0) or 0)
    for _ in range(_PIECES):
        found = await visit.ask("POST", "/jobs/actions", body={"token": form.get("token", "")})
        done, skipped = done + found.done, skipped + found.skipped
        if not found.remaining:
            return Redirect(back, _done(action, done, skipped))
    values = _values(action, back, count=0, token=form.get("token", ""))
    return Page("bulk.html", values | {"done": done, "skipped": skipped, "remaining": found.remaining})


def _values(action: str, back: str, *, count: int, **more: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "copied": None,
        "token": None,
        "sample": [],
        "more": False,
        "done": 0,
        "skipped": 0,
        "remaining": 0,
    }
    return {
        **nothing,
        "action": action,
        "says": _SAYS[action],
        "back": back,
        "count": count,
        "typed": count > _TYPED_FROM,
        **more,
    }


def _copied(visit: Visit, action: str, which: Any) -> dict[str, str]:
    """The same from a shell, over HTTP, where a dry run gives the token to go on with, and from Python."""
    chosen = {name: value for name, value in which.items() if value} if isinstance(which, dict) else {}
    given = arguments(chosen)
    body = json.dumps({"action": action, "filter": chosen, "dry_run": True})
    sent = ["-H", "Content-Type: application/json", "-d", body, f"{visit.origin}{PREFIX}/jobs/actions"]
    words = [f"headway jobs {action}", quoted(chosen.pop("ids", ())), *filter_flags(chosen)]
    return {
        "CLI": of_tenant_in_cli(" ".join(filter(None, words)), visit.whose if chosen else None),
        "curl": f"{curl(visit)} {quoted(sent)}",
        "Python": of_tenant_in_python(f"app.{action}_jobs({given})", visit.whose),
    }


def _filter(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        raise Refused(400, "the filter cannot be read") from None
    if isinstance(found, dict):
        found.pop("q", None)
    return found


def _done(action: str, done: int, skipped: int) -> str:
    words = {"cancel": "canceled, or asked to stop", "retry": "queued again", "delete": "deleted"}[action]
    left = f"; {skipped:,} had changed meanwhile and were left" if skipped else ""
    return f"{done:,} {'job' if done == 1 else 'jobs'} {words}{left}."
