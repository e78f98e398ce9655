"""Makes docs/images from `headway demo --web`: `python tools/screenshots.py`. Needs Chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDE, TALL, PHONE = {"width": 1400, "height": 860}, {"width": 1400, "height": 1480}, {"width": 390, "height": 780}
# name, path below the tenant, scheme, size
PICTURES = (
    ("overview", "/", "light", TALL),
    ("overview-dark", "/", "dark", TALL),
    ("overview-phone", "/", "light", PHONE),
    ("jobs", "/jobs", "light", WIDE),
    ("machine-dark", "waiting", "dark", WIDE),
    ("trains", "/trains/order%2F4711", "light", WIDE),
    ("errors", "/errors", "light", WIDE),
    ("triggers", "/triggers", "light", WIDE),
)


@contextmanager
def demo() -> Iterator[str]:
    """The link of a demo that runs."""
    command = [sys.executable, "-m", "headway", "demo", "--web", "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://\S+token=\S+", line):
                yield found[0]
                return
        raise SystemExit("the demo did not start")
    finally:
        process.terminate()
        process.wait(20)


def take(page: Any, base: str, name: str, path: str, folder: Path) -> Path:
    """One picture of one page of acme's."""
    if not path.startswith("/"):
        page.goto(f"{base}/t/acme/jobs?status={path}")
        path = "/jobs/" + str(page.locator("tr[data-key]").first.get_attribute("data-key"))
    page.goto(f"{base}/t/acme{path}")
    page.wait_for_load_state("load")
    target = folder / f"{name}.png"
    page.screenshot(path=target)
    return target


def main() -> None:
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("google-chrome")
    with demo() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        base = re.sub(r"/login.*", "", link)
        time.sleep(5)  # until orders have come in
        for name, path, scheme, size in PICTURES:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            take(page, base, name, path, FOLDER)
        browser.close()
    sys.stdout.write(f"{sum(each.stat().st_size for each in FOLDER.glob('*.png')) // 1024} KiB in {FOLDER}\n")


if __name__ == "__main__":
    main()
