"""The components of the design, each with its states: to look at while changing them."""

from __future__ import annotations

from datetime import timedelta

from headway.api.wire.problems import Refused
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.model.status import ATTEMPT_STATUSES, STATUSES

pages = Pages()


@pages.get("/_components")
async def components(visit: Visit) -> Page:
    if not visit.is_superadmin:
        raise Refused(404, "there is no such page")
    values = {
        "statuses": STATUSES,
        "attempt_statuses": ATTEMPT_STATUSES,
        "moments": [visit.now + timedelta(seconds=each) for each in (-90_000, -4_000, -70, -3, 0, 65, 100_000)],
        "json": '{"id": 123456789012345678901234567890, "html": "<script>", "list": [1, 2.50, null, true], "none": {}}',
    }
    return Page("components.html", values)
