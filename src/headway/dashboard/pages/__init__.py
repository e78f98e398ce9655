"""The pages, one file for each of the sidebar's entries."""

from __future__ import annotations

from headway.dashboard.pages import (
    actions,
    admin,
    admin_forms,
    artifacts,
    bulk,
    components,
    connector_forms,
    connectors,
    errors,
    events,
    export,
    job,
    jobs,
    machines,
    new_job,
    overview,
    queues,
    template_forms,
    templates,
    trains,
    trigger_forms,
    triggers,
    workers,
)
from headway.dashboard.table import PageRoute

_FILES = (
    *(
        overview,
        jobs,
        new_job,
        job,
        bulk,
        machines,
        trains,
        queues,
        triggers,
        errors,
        events,
        templates,
        connectors,
        artifacts,
        workers,
        admin,
    ),
    *(trigger_forms, template_forms, connector_forms, admin_forms),
    *(export, components, actions),
)
# a path without names comes first: /jobs/new is no job's page
PAGES: tuple[PageRoute, ...] = tuple(
    sorted((page for each in _FILES for page in each.pages.all), key=lambda page: page.path.count("{"))
)
