"""The shop of `headway demo --web`: it has what a newcomer should see, and the README's picture is made of it."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from headway import Headway
from headway.api import Api
from headway.cli.demo import shop
from headway.dashboard import Site
from tools.screenshots import PICTURES, take


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_shop_has_what_a_newcomer_should_see(
    request: pytest.FixtureRequest, store: str, chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = request.getfixturevalue("sqlite_migrated_path" if store == "sqlite" else "postgres_url_with_roles")
    url = f"sqlite:///{found}" if store == "sqlite" else found
    monkeypatch.setattr(shop.time, "sleep", lambda _: None)
    monkeypatch.setenv("HEADWAY_ARTIFACTS", str(tmp_path / "artifacts"))

    def fill() -> Headway:
        filled = Headway(url)
        filled.include(shop.kinds)
        shop.fill(filled)
        return filled

    with ThreadPoolExecutor(1) as apart:  # the browser's driver runs an event loop in this thread
        app = apart.submit(fill).result()
    acme = app.tenant("acme")
    told = {problem.what for problem in acme.overview().problems}
    assert told >= {"no_worker", "dying", "held_train"}
    assert "silent_worker" in {problem.what for problem in app.overview().problems}
    assert {"queued", "scheduled", "held", "waiting", "succeeded", "dead"} <= set(acme.counts())
    assert len(acme.stats("hour", since="7d")) > 150
    assert len(app.overview_of_tenants()) == 3
    assert len({error.fingerprint for error in acme.errors()}) == 3
    assert [each.name for each in acme.connectors()] == ["stock"]
    assert [each.name for each in acme.artifacts()] == ["report.csv"]
    if store == "sqlite":
        _picture(chromium, url, app.create_api_key("root", "superadmin").text, tmp_path)
    app.close()


def _picture(chromium: Any, url: str, key: str, folder: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        Api(Headway(url), site=Site), log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    name, path, scheme, size = PICTURES[0]
    page = chromium.new_page(viewport=size, color_scheme=scheme)
    page.goto(f"{base}/login")
    page.fill("#key", key)
    page.click("button.main")
    page.wait_for_url(f"{base}/")
    picture = take(page, base, name, path, folder).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert "No worker listens to queue exports" in page.inner_text("main")
    assert page.locator("svg").count() > 4
    page.close()
    server.should_exit = True
    thread.join(10)
    assert f"docs/images/{name}.png" in (Path(__file__).parents[2] / "README.md").read_text()
