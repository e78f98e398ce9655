"""The pages, one file for each of the sidebar's entries."""

from __future__ import annotations

from headway.dashboard.pages import (
    actions,
    admin,
    bulk,
    components,
    events,
    job,
    jobs,
    machines,
    new_job,
    overview,
    queues,
    templates,
    trains,
    triggers,
    workers,
)
from headway.dashboard.table import PageRoute

_FILES = (
    *(overview, jobs, new_job, job, bulk, machines, trains, queues, triggers, events, templates, workers, admin),
    *(components, actions),
)
PAGES: tuple[PageRoute, ...] = tuple(page for each in _FILES for page in each.pages.all)
