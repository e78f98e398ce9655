"""A server with its dashboard on either store, filled with lifelike work; keys of every role; a browser."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
import uvicorn

from headway import Await, Context, Done, Headway, Machine, step
from headway.api import Api
from headway.dashboard import Site
from headway.model.access import ROLES
from headway.model.connector import WEBHOOK

SCHEMA = {
    "properties": {"to": {"type": "string"}, "number": {"type": "integer", "default": 0}},
    "required": ["to"],
}
HOSTILE = "<script>alert('x')</script>\u202e\x1b[2J & \"quoted\""


@dataclass(frozen=True)
class Dashboard:
    """A running server, and what is in its database."""

    url: str
    app: Headway
    keys: dict[str, str]
    jobs: dict[str, str]  # ids of what acme has, by what it is
    site: Site

    @contextmanager
    def visitor(self, role: str) -> Iterator[httpx.Client]:
        """Somebody who has logged in."""
        with httpx.Client(base_url=self.url, headers={"Sec-Fetch-Site": "same-origin"}, timeout=30) as client:
            answer = client.post("/login", data={"key": self.keys[role]})
            assert answer.status_code == 303, answer.text
            yield client


@pytest.fixture(params=["sqlite", "postgres"])
def dashboard(request: pytest.FixtureRequest) -> Iterator[Dashboard]:
    sqlite = request.param == "sqlite"
    name = "sqlite_migrated_path" if sqlite else "postgres_url_with_roles"
    found = request.getfixturevalue(name)
    url = f"sqlite:///{found}" if sqlite else found
    with ThreadPoolExecutor(1) as apart:  # the browser's driver runs an event loop in this thread
        jobs = apart.submit(_fill, url).result()
    app = Headway(url)
    keys = {role: app.tenant("acme").create_api_key(role, role).text for role in ROLES if role != "superadmin"}
    keys["superadmin"] = app.create_api_key("root", "superadmin").text
    keys["stranger"] = app.tenant("globex").create_api_key("stranger", "admin").text
    sites: list[Site] = []

    def site(api: Api) -> Site:
        sites.append(Site(api))
        return sites[0]

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        Api(Headway(url), site=site), log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield Dashboard(f"http://127.0.0.1:{listener.getsockname()[1]}", app, keys, jobs, sites[0])
    server.should_exit = True
    thread.join(10)
    app.close()


def _fill(url: str) -> dict[str, str]:
    """Jobs in every status, a train on hold, a machine that waits, a schedule, events, a template."""
    code = Headway(url)

    @code.job(queue="mail", max_attempts=1, schema=SCHEMA)
    def send_email(to: str, number: int = 0) -> str:
        if number == 13:
            raise ConnectionRefusedError(f"550 no such user: {HOSTILE}")
        return f"accepted for {to}"

    @code.job(queue="billing", max_attempts=1, on_dead="hold")
    def charge(cents: int) -> None:
        if cents == 13:
            raise ValueError("card declined")

    @code.machine
    class Approval(Machine, queue="approvals"):
        class State(msgspec.Struct):
            document: str

        @step
        async def start(self, ctx: Context) -> Await:
            return Await("approved", then=self.finish)

        @step
        async def finish(self, ctx: Context) -> Done:
            return Done("approved")

    acme = code.tenant("acme")
    jobs = {
        "succeeded": acme.enqueue("send_email", {"to": "a@example.com"}).id,
        "dead": acme.enqueue("send_email", {"to": HOSTILE, "number": 13}).id,
        "locomotive": acme.enqueue("charge", {"cents": 13}, train="orders/7").id,
        "waiting": acme.enqueue("approval", {"document": HOSTILE}).id,
        "car": acme.enqueue("charge", {"cents": 5}, train="orders/7").id,
    }
    code.run(until_idle=True)
    jobs["scheduled"] = acme.enqueue("send_email", {"to": "later@example.com"}, delay="1h").id
    jobs["queued"] = acme.enqueue("send_email", {"to": "soon@example.com"}, unique_key=HOSTILE[:40]).id
    jobs["trigger"] = acme.create_schedule(
        "nightly", "0 2 * * *", kind="send_email", tz="America/New_York", payload={"to": "x"}
    ).id
    acme.create_template("greeting", "send_email", {"to": "t@example.com"})
    jobs["connector"] = acme.create_connector(
        "crm", "https://crm.example/hook", kind=WEBHOOK, events=["invoice.*"], description=HOSTILE
    ).id
    jobs["event"] = acme.emit("order.paid", {"note": HOSTILE})
    jobs["error"] = acme.errors(job=jobs["dead"])[0].fingerprint
    code.tenant("globex").enqueue("send_email", {"to": "secret-of-globex@example.com"}, queue="globex-queue")
    code.close()
    return jobs


def installed_browser() -> str | None:
    """The one without windows first: it does the same work with a third less CPU."""
    found = map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))
    return next(filter(None, found), None)


@pytest.fixture(scope="module")
def chromium(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A real browser; where there is none, these tests do not run, and say so.

    Not for longer than a module: playwright keeps an event loop running in this thread, beside which no other test
    could start its own.
    """
    path = installed_browser()
    if path is None:
        said = "there is no Chromium, so the browser tests did not run: apt-get install chromium-headless-shell"
        (pytest.fail if request.config.getoption("--need-browser") else pytest.skip)(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # no process that draws in the place of a graphics card
        args = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
        browser = playwright.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()
