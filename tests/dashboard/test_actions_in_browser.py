"""Every action as a person does it: find the button, press it, confirm, read what it says. On each store every other
group is done in Chromium, and the rest by posting the same forms without scripts."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import unquote

import httpx2 as httpx
import pytest

from headway.dashboard.action_table import ACTIONS
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from tests.dashboard.conftest import Dashboard
from tests.dashboard.test_browser import tab

_FIELD = re.compile(r'<input[^>]*? name="([^"]+)"[^>]*? value="([^"]*)"')


@dataclass(frozen=True)
class Press:
    """Where an action's button is, and what the page shows after it."""

    action: str
    page: str  # {dead} and the like are ids of the prepared database
    of: str = ""  # the id or name in the button's address, where the page has several
    fill: dict[str, str] = field(default_factory=dict)
    shows: str = ""  # a selector
    by_undo: bool = False  # it has no button of its own: it takes back the action before it


# in groups, so that each store has every other one in the browser
GROUPS = (
    (
        Press("retry-job", "/jobs/{dead}", shows='[data-status="queued"]'),
        Press("cancel-job", "/jobs/{dead}", fill={"reason": "a mistake"}, shows='[data-status="canceled"]'),
    ),
    (
        Press("run-job", "/jobs/{scheduled}", shows='[data-status="queued"]'),
        Press("schedule-job", "/jobs/{scheduled}", shows='[data-status="scheduled"]', by_undo=True),
    ),
    (Press("fork-job", "/jobs/{waiting}", shows="main:has-text('Forked from')"),),
    (Press("signal-job", "/jobs/{waiting}", fill={"name": "hello"}, shows="main:has-text('hello')"),),
    (Press("delete-job", "/jobs/{succeeded}", shows="h1:text-is('Jobs')"),),
    (
        Press("pause-queue", "/queues/mail", shows="a:text-is('Resume')"),
        Press("resume-queue", "/queues/mail", shows="a:text-is('Pause')"),
    ),
    (
        Press("resume-train", "/trains/orders%2F7", shows="a:text-is('Hold')"),
        Press("hold-train", "/trains/orders%2F7", fill={"reason": "wait"}, shows="a:text-is('Resume')"),
        Press("skip-car", "/trains/orders%2F7", of="car"),
    ),
    (Press("clear-train", "/trains/orders%2F7", shows="h1:text-is('Trains')"),),
    (
        Press("pause-trigger", "/triggers/{trigger}", shows="a:text-is('Resume')"),
        Press("resume-trigger", "/triggers/{trigger}", shows="a:text-is('Pause')"),
    ),
    (
        Press("run-trigger", "/triggers/{trigger}", shows="td a.id, td .id a"),
        Press("delete-schedule", "/triggers/{trigger}", shows="h1:text-is('Triggers')"),
    ),
    (
        Press("disable-trigger", "/triggers/{on_event}", shows="a:text-is('Resume')"),
        Press("enable-trigger", "/triggers/{on_event}", shows="a:text-is('Pause')"),
        Press("delete-trigger", "/triggers/{on_event}", shows="h1:text-is('Triggers')"),
    ),
    (Press("delete-template", "/templates", shows=".empty"),),
    (
        Press("disable-connector", "/connectors", shows="a:text-is('Enable')"),
        Press("enable-connector", "/connectors", shows="a:text-is('Disable')"),
        Press("delete-connector", "/connectors", shows=".empty"),
    ),
    (Press("retry-event", "/events/{failed_event}", shows='main .status:has-text("pending")'),),
    (Press("dead-worker", "/workers", shows=".empty"),),
    (Press("end-reservation", "/limits"),),
    (
        Press("suspend-tenant", "/tenants", of="globex", shows="a:text-is('Resume')"),
        Press("resume-tenant", "/tenants", of="globex"),
    ),
    (Press("revoke-key", "/keys", of="viewer_key"),),
)


def test_every_action_has_a_row_here() -> None:
    assert sorted(each.action for group in GROUPS for each in group) == sorted(ACTIONS)


def test_every_action_is_pressed_confirmed_and_tells_what_it_did(
    chromium: Any, dashboard: Dashboard, request: pytest.FixtureRequest
) -> None:
    with ThreadPoolExecutor(1) as apart:  # the browser's driver runs an event loop in this thread
        ids = apart.submit(_prepared, dashboard).result()
    first = 0 if "sqlite" in request.node.name else 1
    after = ""
    with tab(chromium, dashboard, "superadmin") as page, dashboard.visitor("superadmin") as visitor:
        for n, group in enumerate(GROUPS):
            for press in group:
                if n % 2 == first:
                    _do(page, dashboard.url, press, ids)
                else:
                    after = _post(visitor, press, ids, after)
        alone = dashboard.app.tenant("acme").enqueue("send_email", {"to": "last car"}, train="alone")
        _post(visitor, Press("skip-car", "/trains/alone", fill={"job_id": alone.id}), {}, after)
        assert visitor.get("/t/acme/trains/alone").status_code == 404  # and it did not lead there


def _do(page: Any, url: str, press: Press, ids: dict[str, str]) -> None:
    action = ACTIONS[press.action]
    if press.by_undo:
        page.click("button:text-is('Undo')")
    else:
        path = press.page.format(**ids)
        to = url + (path if path == "/tenants" else f"/t/acme{path}")
        if unquote(page.url) != unquote(to):  # the action before it may have led here
            page.goto(to)
        of = f'[href*="{ids.get(press.of, press.of)}"]' if press.of else ""
        page.click(f'main a[data-dialog][href*="/do/{press.action}?"]{of} >> nth=0')
        page.wait_for_selector("dialog[open]")
        assert action.says.partition("{")[0] in page.inner_text("dialog[open]"), press.action
        for name, value in press.fill.items():
            page.fill(f"dialog[open] #a-{name}", value)
        page.click("dialog[open] button.main")
    page.wait_for_selector(f'.said:has-text("{action.done.partition("{")[0].strip()}")', timeout=5_000)
    if press.shows:
        page.wait_for_selector(press.shows, timeout=5_000)


def _post(visitor: httpx.Client, press: Press, ids: dict[str, str], before: str) -> str:
    """The same without a browser: the page's link, the form that it leads to, and the page after it, which it gives."""
    action, path = ACTIONS[press.action], press.page.format(**ids)
    form = before  # it has the button that takes back what was done last
    if not press.by_undo:
        page = visitor.get(path if path == "/tenants" else f"/t/acme{path}").text
        links = [unescape(each) for each in re.findall(r'data-dialog href="([^"]+)"', page)]
        of = ids.get(press.of, press.of)
        form = visitor.get(next(each for each in links if f"/do/{press.action}?" in each and of in each)).text
        assert action.says.partition("{")[0] in unescape(form), press.action
    to, fields = next(each for each in _forms(form) if each[0].endswith(f"/do/{press.action}"))
    done = visitor.post(to, data=fields | press.fill)
    assert done.status_code == 303, (press.action, done.text)
    after = visitor.get(done.headers["location"])
    assert after.status_code == 200, press.action
    assert action.done.partition("{")[0].strip() in unescape(after.text), press.action
    return after.text


def _forms(html: str) -> list[tuple[str, dict[str, str]]]:
    """Where each form of a page goes, and what it has filled in."""
    return [
        (unescape(to), {name: unescape(value) for name, value in _FIELD.findall(inside)})
        for to, inside in re.findall(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', html, re.DOTALL)
    ]


def _prepared(dashboard: Dashboard) -> dict[str, str]:
    """What the actions need beside what every dashboard of these tests has."""
    app, acme = dashboard.app, dashboard.app.tenant("acme")
    trigger = acme.create_trigger("broken", "order.broken", kind="send_email", payload={"to": "{{event.missing}}"})
    failed = acme.emit("order.broken", {})
    app.run(queues={"nobody": 1}, until_idle=True)
    assert acme.get_event(failed).status == "failed"
    silent = {"machine": None, "process_started": None, "version": "1", "kinds": (), "concurrency": 1}
    worker = NewWorker(id=new_id(), hostname="gone", pid=1, queues={"default": 1}, lease_ms=60_000, **silent)
    app.store.run(app.store.ops.register(worker))
    app.reserve_queue("billing")
    key = next(each for each in acme.api_keys() if each.name == "viewer")
    return dashboard.jobs | {"on_event": trigger.id, "failed_event": str(failed), "viewer_key": key.id}
