"""The dashboard in a real Chromium: the policy holds, axe finds nothing, it is live, and it reads without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe

from headway.dashboard import live
from tests.dashboard.conftest import Dashboard
from tests.dashboard.test_pages import PAGES

# What a page shows, and what its buttons do, test_pages.py asks on both stores: a browser sees the same of either.
on_one_store = pytest.mark.parametrize("dashboard", ["sqlite"], indirect=True)


@contextmanager
def tab(chromium: Any, dashboard: Dashboard, role: str | None = "admin", **options: Any) -> Iterator[Any]:
    """A tab of somebody who has logged in, or of a stranger; fails for whatever the browser complains of."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, **options)
    if role is not None:
        with dashboard.visitor(role) as visitor:  # two pages less to draw than by the form
            cookies = [{"name": each.name, "value": each.value, "url": dashboard.url} for each in visitor.cookies.jar]
        context.add_cookies(cookies)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith(dashboard.url) else None)
    yield page
    context.close()
    assert complaints == []


def log_in(page: Any, dashboard: Dashboard, role: str) -> None:
    page.goto(f"{dashboard.url}/login")
    page.fill("#key", dashboard.keys[role])
    page.click("button.main")
    page.wait_for_url(f"{dashboard.url}/")


# Contrast costs axe far more than all of its other rules. It depends on the colours of an element and what it
# stands on, and on its letters: each such look is measured once, where it first appears.
MEASURE = """async (seen) => {
  const known = new Set(seen);
  const fresh = [];
  const elements = [];
  for (const each of document.querySelectorAll("body *")) {
    const style = getComputedStyle(each);
    const has_text = [...each.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
    if (!has_text && !each.matches("input, select, textarea")) continue;
    if (!each.checkVisibility({ visibilityProperty: true })) continue;
    const grounds = [];
    for (let at = each; at; at = at.parentElement) {
      const under = getComputedStyle(at);
      grounds.push(under.backgroundColor, under.opacity, under.filter);
      if (under.backgroundColor.startsWith("rgb(")) break;
    }
    const look = [style.color, style.fontSize, style.fontWeight, ...grounds].join(" ");
    if (known.has(look)) continue;
    known.add(look);
    fresh.push(look);
    elements.push(each);
  }
  if (!elements.length) return [fresh, []];
  const found = await axe.run({ include: elements }, { runOnly: ["color-contrast"], resultTypes: ["violations"] });
  return [fresh, found.violations];
}"""


@on_one_store
def test_every_page_is_quiet_and_readable_by_all(chromium: Any, dashboard: Dashboard) -> None:
    axe, wrong = Axe(), []
    frame = {"exclude": [[".side"], [".topbar"]]}  # the same on every page, so looked at once
    options = {"rules": {"color-contrast": {"enabled": False}}, "resultTypes": ["violations"]}
    seen: dict[str, list[str]] = {"light": [], "dark": []}
    with tab(chromium, dashboard, None) as page:
        log_in(page, dashboard, "superadmin")
        for path in (each for each in PAGES if "?" not in each):
            page.goto(f"{dashboard.url}/t/acme{path.format(**dashboard.jobs)}")
            found = axe.run(page, None if path == "/" else frame, options).response["violations"]
            wrong += [f"{path}: {each}" for each in _violations(found)]
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not wide, f"{path} is wider than the window"
            for scheme, known in seen.items():
                page.emulate_media(color_scheme=scheme)
                fresh, unreadable = page.evaluate(MEASURE, known)
                known += fresh
                wrong += [f"{scheme} {path}: {each}" for each in _violations(unreadable)]
    assert not wrong, "\n".join(wrong)


def _violations(found: list[Any]) -> list[str]:
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        for node in each["nodes"]
    ]


@on_one_store
def test_pages_fit_a_phone_and_read_without_scripts(chromium: Any, dashboard: Dashboard) -> None:
    options = {"java_script_enabled": False, "viewport": {"width": 390, "height": 800}}
    context = chromium.new_context(**options)
    page = context.new_page()
    log_in(page, dashboard, "admin")
    page.goto(f"{dashboard.url}/jobs/{dashboard.jobs['dead']}")
    assert "550 no such user" in page.inner_text("main")
    page.click("text=Retry >> nth=0")
    assert "runs again" in page.inner_text("main")
    page.click("button:has-text('Retry')")
    assert "queued again" in page.inner_text("main")
    for path in ("/", "/jobs", "/queues", "/trains/orders%2F7"):
        page.goto(dashboard.url + path)
        box = page.locator("main").bounding_box()
        assert box is not None
        assert box["width"] <= 390, path
    context.close()


def test_the_list_is_live_and_announces_what_is_new(chromium: Any, dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    with tab(chromium, dashboard) as page:
        page.goto(f"{dashboard.url}/jobs")
        before = page.locator("tr[data-key]").count()
        made = acme.enqueue("send_email", {"to": "new@example.com"})
        page.wait_for_selector("text=1 new")
        assert page.locator("tr[data-key]").count() == before  # what one reads is not pushed away
        page.click("text=1 new")
        page.wait_for_selector(f'tr[data-key="{made.id}"]')
        acme.cancel(dashboard.jobs["queued"])
        page.wait_for_selector(f'tr[data-key="{dashboard.jobs["queued"]}"] [data-status="canceled"]')


# what a person does while a page is live: how it begins, and how it ends
BUSY = {
    "selects": ("getSelection().selectAllChildren(document.querySelector('h1'))", "getSelection().empty()"),
    "types": (
        """(() => {
          const type = () => document.querySelector("#search").dispatchEvent(new Event("input", { bubbles: true }));
          type();
          window.busy = setInterval(type, 50);
        })()""",
        "clearInterval(window.busy)",
    ),
    "scrolls": (
        """new Promise((done) => {
          addEventListener("scroll", () => done(), { once: true });
          window.busy = setInterval(() => scrollTo(0, scrollY ? 0 : 20), 50);
        })""",
        "clearInterval(window.busy)",
    ),
}
MOVED = """() => {
  window.moved = [];
  const box = (at) => [at.x, at.y, at.width, at.height].map(Math.round).join(" ");
  const name = (each) => `${each.node?.nodeName} ${box(each.previousRect)} -> ${box(each.currentRect)}`;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.moved.push(each.sources.map(name));
  }).observe({ type: "layout-shift" });
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@on_one_store
def test_a_live_page_waits_while_one_reads_and_moves_nothing(
    chromium: Any, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)
    acme = dashboard.app.tenant("acme")
    with tab(chromium, dashboard) as page:
        page.set_viewport_size({"width": 1280, "height": 400})  # so that it scrolls
        page.goto(f"{dashboard.url}/jobs")
        page.wait_for_selector('#live-state[data-state="live"]')
        page.evaluate(MOVED)
        for n, (what, (begin, end)) in enumerate(BUSY.items()):
            page.evaluate(begin)
            acme.enqueue("send_email", {"to": what})
            page.wait_for_selector('#live-state[data-state="paused"]')
            assert page.locator(".news").all_inner_texts() == ([f"{n} new"] if n else []), what
            page.evaluate(end)
            page.wait_for_selector(f".news:text-is('{n + 1} new')")
        acme.change(dashboard.jobs["scheduled"], scheduled_for=None)  # a row changes in place
        page.wait_for_selector(f'tr[data-key="{dashboard.jobs["scheduled"]}"] [data-status="queued"]')
        acme.cancel(dashboard.jobs["queued"], reason="nobody needs it")  # and one gains an error
        page.wait_for_selector(f'tr[data-key="{dashboard.jobs["queued"]}"] .error-text:has-text("nobody needs it")')
        assert page.evaluate("window.moved") == []
        page.evaluate(HIDE, True)
        page.wait_for_selector('#live-state[data-state="paused"]')
        while dashboard.site.open_tabs:  # the stream is closed, so that a hidden tab costs nothing
            page.wait_for_timeout(20)
        acme.enqueue("send_email", {"to": "hidden"})
        page.evaluate(HIDE, False)
        page.wait_for_selector(".news:text-is('4 new')")


@on_one_store
def test_an_action_is_asked_in_a_dialog(chromium: Any, dashboard: Dashboard) -> None:
    job_id = dashboard.jobs["scheduled"]
    with tab(chromium, dashboard) as page:
        page.goto(f"{dashboard.url}/jobs/{job_id}")
        page.click("text=Cancel >> nth=0")
        page.wait_for_selector("dialog[open]")
        assert "The job will not run" in page.inner_text("dialog[open]")
        page.click("dialog[open] >> text=Not now")
        assert dashboard.app.get(job_id).status == "scheduled"
        page.click("text=Cancel >> nth=0")
        page.click("dialog[open] button.main")
        page.wait_for_selector(".said")
    assert dashboard.app.get(job_id).status == "canceled"


@on_one_store
def test_the_selected_row_is_in_the_address_and_rows_fit(chromium: Any, dashboard: Dashboard) -> None:
    with tab(chromium, dashboard) as page:
        page.goto(f"{dashboard.url}/jobs")
        page.keyboard.press("j")
        page.keyboard.press("j")
        chosen = page.locator('tr[aria-selected="true"]').get_attribute("data-key")
        assert page.url == f"{dashboard.url}/jobs#row={chosen}"
        page.goto("about:blank")
        page.goto(f"{dashboard.url}/jobs#row={chosen}")
        row = page.locator('tr[aria-selected="true"]')
        assert row.get_attribute("data-key") == chosen
        assert row.locator("td.nowrap .copy").first.get_attribute("data-copy") == chosen
        for width in (1280, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("(t => t.scrollWidth - t.clientWidth)(document.querySelector('.dense'))") == 0
        page.goto(f"{dashboard.url}/jobs/{dashboard.jobs['dead']}")
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.emulate_media(media="print", color_scheme="dark")
        paper = page.evaluate("getComputedStyle(document.querySelector('.panel')).backgroundColor")
        assert paper == "rgb(255, 255, 255)", "printed in light, whatever the screen has"
        assert page.locator(".copy:visible, .actions:visible, .topbar:visible").count() == 0
        assert page.pdf(format="A4").startswith(b"%PDF")


@on_one_store
def test_the_keyboard_reaches_everything(chromium: Any, dashboard: Dashboard) -> None:
    with tab(chromium, dashboard) as page:
        page.goto(f"{dashboard.url}/jobs")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        chosen = page.locator('tr[aria-selected="true"]')
        assert chosen.count() == 1
        first = page.locator("tr[data-key] >> nth=0").get_attribute("data-key")
        assert chosen.get_attribute("data-key") == first
        page.keyboard.press("Enter")
        page.wait_for_url(f"{dashboard.url}/jobs/{first}")
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("q")
        page.wait_for_url(f"{dashboard.url}/queues")


@on_one_store
def test_a_form_shows_what_it_will_do_while_one_types(chromium: Any, dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    with tab(chromium, dashboard, timezone_id="Asia/Tokyo", locale="en-GB") as page:
        page.goto(f"{dashboard.url}/triggers/new")
        assert page.evaluate("document.activeElement.id") == "f-label"
        assert not page.locator("button:has-text('Preview')").is_visible()  # for those without scripts
        page.keyboard.type("Morning mail")
        page.fill("#f-cron", "30 2 * * *")
        page.fill("#f-kind", "send_email")
        page.fill("#f-payload", '{"to": "x"}')
        page.wait_for_selector("#preview:has-text('At 02:30 every day')")
        page.wait_for_selector("#preview:has-text('It enqueues send_email')")
        assert page.locator("#preview .yours >> nth=0").inner_text().endswith("11:30:00 for you")
        page.keyboard.press("Enter")  # a newline: the focus is in a text area
        page.press("#f-cron", "Enter")
        page.wait_for_selector(".said:has-text('Morning mail is stored')")
        page.click("text=Pause >> nth=0")
        page.click("dialog[open] button.main")
        page.wait_for_selector(".said:has-text('It is paused')")
        page.click("button:has-text('Undo')")
        page.wait_for_selector(".said:has-text('It fires again')")
        page.goto(dashboard.url)
        tick = page.locator("svg [data-at]").first  # the axis of a chart is in the person's zone, too
        there = datetime.fromisoformat(tick.get_attribute("data-at")).astimezone(ZoneInfo("Asia/Tokyo"))
        assert tick.text_content() == f"{there:%H:%M}"
        page.goto(f"{dashboard.url}/jobs")
        page.click(f'tr[data-key="{dashboard.jobs["dead"]}"] >> text=Log')
        page.wait_for_selector("dialog[open]:has-text('550 no such user')")
    (made,) = [each for each in acme.schedules() if each.label == "Morning mail"]
    assert made.enabled
