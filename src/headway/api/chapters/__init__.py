"""The endpoints, a module per chapter of the contract."""

from __future__ import annotations

from headway.api.chapters import (
    artifacts,
    audit,
    bulk,
    capacity,
    connectors,
    definitions,
    doctor,
    enqueue,
    errors,
    events,
    fleet,
    flows,
    job_actions,
    job_streams,
    jobs,
    keys,
    machines,
    order,
    sessions,
    stats,
    templates,
    tenants,
    triggers,
    worker,
    worker_ends,
)
from headway.api.routes import Route

_CHAPTERS = (
    bulk,
    triggers,  # before jobs: /jobs/triggers is no job
    definitions,
    templates,
    connectors,
    enqueue,
    errors,
    jobs,
    job_actions,
    job_streams,
    flows,
    artifacts,
    events,
    capacity,  # before the queues: /queues/pause pauses all
    fleet,
    order,
    machines,
    audit,
    doctor,
    stats,
    keys,
    sessions,
    tenants,
    worker,
    worker_ends,
)

ROUTES: list[Route] = [route for chapter in _CHAPTERS for route in chapter.routes.all]
"""Every route; where two paths fit a request, the earlier one answers it."""
