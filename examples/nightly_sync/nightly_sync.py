"""Copies the folders of two customers with a program, on a schedule in each customer's own zone and at once on events.

Run it with: python examples/nightly_sync/nightly_sync.py [database URL] [--once]. With --once it fires each
schedule by hand instead of waiting for the next minute, and ends.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

from headway import Context, Headway
from headway.errors import Duplicate

# workers run only the programs listed in the headway.toml next to this file
os.environ.setdefault("HEADWAY_CONFIG", str(Path(__file__).with_name("headway.toml")))

URLS = [argument for argument in sys.argv[1:] if "://" in argument]
CRON = "* * * * *"  # every minute, so that there is something to see; in production "0 2 * * *"
CUSTOMERS = {"acme": "America/New_York", "globex": "Asia/Tokyo"}

app = Headway(URLS[0] if URLS else None)


@app.job(queue="sync")
def notify(ctx: Context, kind: str, error: str) -> None:
    print(f"{ctx.tenant}: {kind} is dead, {error.partition(':')[0]}", flush=True)


def set_up(customer: str, tz: str, folder: Path) -> None:
    """Store a customer's template, schedule and two triggers; a second start only updates the template."""
    source, target = folder / customer, folder / f"{customer}.backup"
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(exist_ok=True)
    (source / "ledger.txt").write_text(f"the ledger of {customer}\n", "utf-8")
    try:
        app.create_template("sync", "sync", {"source": str(source), "target": str(target)}, tenant=customer)
        app.create_schedule("sync", CRON, tz=tz, template="sync", overlap="skip", tenant=customer)
        app.create_trigger(
            "sync-now", "folder.updated", template="sync", payload={"source": "{{event.folder}}"}, tenant=customer
        )
        app.create_trigger(
            "alarm",
            "headway.job.dead",
            kind="notify",
            payload={"kind": "{{event.kind}}", "error": "{{event.error}}"},
            tenant=customer,
        )
    except Duplicate:
        app.change_template("sync", payload={"source": str(source), "target": str(target)}, tenant=customer)


def once(folder: Path) -> None:
    """Fire each schedule, emit one event twice, and emit one that names a missing folder."""
    for customer in CUSTOMERS:
        app.run_schedule("sync", tenant=customer)
    app.run("sync", until_idle=True)
    for customer in CUSTOMERS:
        copied = (folder / f"{customer}.backup" / "ledger.txt").read_text("utf-8").strip()
        print(f"{customer}: {app.jobs(tenant=customer, limit=1)[0].status}, {copied}")

    (folder / "acme" / "ledger.txt").write_text("a page more\n", "utf-8")
    events = [app.emit("folder.updated", {"folder": str(folder / "acme")}, tenant="acme") for _ in range(2)]
    app.run("sync", until_idle=True)
    print("acme:", ", ".join(app.fires(event_id=event)[0].status for event in events))
    print("acme:", (folder / "acme.backup" / "ledger.txt").read_text("utf-8").strip())

    app.emit("folder.updated", {"folder": str(folder / "gone")}, tenant="acme")
    app.run("sync", until_idle=True)


def main() -> None:
    logging.getLogger("headway").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="nightly_sync_") as made:
        folder = Path(made)
        for customer, tz in CUSTOMERS.items():
            set_up(customer, tz, folder)
        if "--once" in sys.argv:
            once(folder)
        else:
            for customer in CUSTOMERS:
                due = app.preview_schedule("sync", 1, tenant=customer)[0]
                print(f"{customer}: next at {due:%H:%M %Z}; headway schedules list shows them, Ctrl-C ends", flush=True)
            app.run()
    app.close()


if __name__ == "__main__":
    main()
