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


def linked(sentence: str, job: Mapping[str, Any], url_of: Callable[[str, str], str], now: datetime) -> Markup:
    """What is said of a job, with links to its queue, its train and the other jobs in it; the command that helps, at
    its end, is set apart."""
    sentence, colon, command = sentence.partition(": headway ")
    pages = {f"queue {job['queue']}": f"/queues/{quote(job['queue'], safe='')}"}
    if job["train"]:
        pages[f"train {job['train']}"] = f"/trains/{quote(job['train'], safe='')}"
    names = "|".join(re.escape(each) for each in sorted(pages, key=len, reverse=True))
    parts, at = Markup(""), 0
    for found in re.finditer(rf"(?:{names})(?![\w./-])|\b{_ID}\b", sentence):
        page = pages.get(found[0])
        if page is None and found[0] == job["id"]:
            continue
        parts += timed(sentence[at : found.start()], now)
        href = url_of(job["tenant"], page or f"/jobs/{found[0]}")
        parts += Markup('<a href="{}">{}</a>').format(href, printable(found[0]))
        at = found.end()
    parts += timed(sentence[at:], now)
    return parts + Markup(": <code>headway {}</code>").format(printable(command)) if colon else parts
