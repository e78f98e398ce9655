"""Workers: who is there, what they serve, and who went silent."""

from __future__ import annotations

from typing import Any

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/workers")
async def list_workers(visit: Visit) -> Page:
    workers = (await visit.ask("GET", "/workers")).items
    workers = sorted(workers, key=lambda each: (each.lease_expires_at > visit.now, each.hostname, each.started_at))
    running = (await visit.ask("GET", "/jobs", query={"status": "running", "limit": 200})).items
    jobs: dict[str, list[Any]] = {}
    for job in running:
        jobs.setdefault(job["worker_id"] or "", []).append(job)
    values = {
        "workers": workers,
        "jobs": jobs,
        "slots": sum(each.concurrency for each in workers),
        "running": sum(each.running for each in workers),
        "versions": sorted({each.version for each in workers}),
        "actions": ACTIONS,
    }
    return Page("workers.html", values)


async def slots(visit: Visit) -> dict[str, int] | None:
    """How many jobs of each queue the live workers run at once; None for a page about one tenant: they serve all."""
    if not visit.sees_all:
        return None
    found: dict[str, int] = {}
    for worker in (await visit.ask("GET", "/workers")).items:
        if worker.lease_expires_at > visit.now:
            for queue, count in worker.queues.items():
                found[queue] = found.get(queue, 0) + count
    return found
