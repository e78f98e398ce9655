"""Turns pages into HTML. Everything that comes from outside is escaped, and what controls a terminal or the reading
direction is shown as an escape, in one place for all templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headway.dashboard.asset_files import Assets
from headway.dashboard.shown import icons, json_text, links, numbers, schedules, times
from headway.dashboard.table import Page
from headway.dashboard.visit import Visit
from headway.model.audit import show_changes
from headway.printable import printable

_LIVE = "live_"


class Renderer:
    """The templates and what they may call."""

    def __init__(self, assets: Assets) -> None:
        self._jinja = Environment(
            loader=PackageLoader("headway.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_safe,
        )
        self._jinja.filters |= {
            "count": numbers.count,
            "counted": numbers.counted,
            "attempt": lambda job: numbers.attempt(job["tries"], job["status"]),
            "duration": numbers.duration,
            "ms": lambda ms: numbers.duration(None if ms is None else ms / 1_000),
            "size": numbers.size,
            "json": json_text.json_html,
            "masked": json_text.masked_json,
            "exact": times.exact_text,
        }
        self._jinja.globals |= {
            "changes": show_changes,
            "exact_moment": times.exact_moment,
            "linked": links.linked,
            "told": links.told,
            "icon": icons.icon,
            "asset": assets.served_name,
            "words": schedules.schedule_words,
        }
        self._jinja.globals["p"] = self._jinja.get_template("parts.html").module

    def page(self, page: Page, visit: Visit | None, values: Mapping[str, Any]) -> str:
        return self._jinja.get_template(page.template).render(_values(page, visit, values))

    def live_parts(self, page: Page, visit: Visit) -> dict[str, str]:
        """The parts of a page that change while somebody looks at it: its blocks whose name begins with live_."""
        template = self._jinja.get_template(page.template)
        context = template.new_context(_values(page, visit, {}))
        return {name: "".join(block(context)) for name, block in template.blocks.items() if name.startswith(_LIVE)}


def _values(page: Page, visit: Visit | None, values: Mapping[str, Any]) -> dict[str, Any]:
    if visit is None:
        return {**page.values, **values, "visit": None}
    return {
        **page.values,
        **values,
        "visit": visit,
        "url": visit.url,
        "here": visit.here,
        "may": visit.may,
        "moment": partial(_moment, visit),
    }


def _moment(visit: Visit, value: Any, none: str = "–") -> Markup:
    return times.moment(value, visit.now, none=none)


def _safe(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value
