"""Sentences with links to what they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from headway.dashboard.shown.times import timed
from headway.printable import printable

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def told(sentence: str, tenant: str | None, url_of: Callable[[str | None, str], str], now: datetime) -> Markup:
    """A sentence of ours, with its times, and links to the jobs in it."""
    return _with_links(sentence, {}, tenant, url_of, now)


def linked(sentence: str, job: Mapping[str, Any], url_of: Callable[[str | None, str], str], now: datetime) -> Markup:
    """What is said of a job, with links to its queue, its train and the other jobs in it; the command that helps, at
    its end, is set apart."""
    said, colon, command = sentence.partition(": headway ")
    if "," in command:  # two ways on, in prose
        said, colon = sentence, ""
    pages = {f"queue {job['queue']}": f"/queues/{quote(job['queue'], safe='')}"}
    if job["train"]:
        pages[f"train {job['train']}"] = f"/trains/{quote(job['train'], safe='')}"
    parts = _with_links(said, pages, job["tenant"], url_of, now, itself=job["id"])
    return parts + Markup(": <code>headway {}</code>").format(printable(command)) if colon else parts


def _with_links(
    sentence: str,
    pages: Mapping[str, str],
    tenant: str | None,
    url_of: Callable[[str | None, str], str],
    now: datetime,
    *,
    itself: str | None = None,
) -> Markup:
    names = "|".join(re.escape(each) for each in sorted(pages, key=len, reverse=True))
    pattern = (rf"(?:{names})(?![\w./-])|" if names else "") + rf"\b{_ID}\b"
    parts, at = Markup(""), 0
    for found in re.finditer(pattern, sentence):
        if found[0] == itself:
            continue
        parts += timed(sentence[at : found.start()], now)
        page = pages.get(found[0])
        if page is None:
            parts += Markup('<a class="id" href="{}" title="{}">{}</a>').format(
                url_of(tenant, f"/jobs/{found[0]}"), found[0], found[0][-12:]
            )
        else:
            parts += Markup('<a href="{}">{}</a>').format(url_of(tenant, page), printable(found[0]))
        at = found.end()
    return parts + timed(sentence[at:], now)
