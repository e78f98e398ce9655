"""The kinds of `headway demo`: a small shop that sends mail, makes thumbnails and builds reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from headway.define import Context, Registry
from headway.model.job import NewJob

NOBODY = "nobody@example.invalid"
ENDLESS = "every order since 1970"

kinds = Registry()


class TryAgainLater(Exception):
    """A busy mail server's answer."""


@kinds.job(queue="mail", max_attempts=4, backoff=("120ms", "1s"))
async def send_email(ctx: Context, number: int, to: str) -> str:
    """Most succeed at once; every eighth meets a busy server first, and one address does not exist."""
    await asyncio.sleep(_between(0.06, 0.24, number))
    if to == NOBODY:
        raise ConnectionRefusedError(f"550 no such user: {to}")
    if number % 8 == 3 and ctx.tries < 1 + number % 3 % 2:
        raise TryAgainLater("451 the server is busy, try again later")
    return f"250 accepted for {to}"


@kinds.job(queue="images", max_attempts=3, backoff=("120ms", "1s"))
def make_thumbnail(number: int, width: int) -> dict[str, int]:
    """A plain function, so it runs in a thread."""
    time.sleep(_between(0.08, 0.26, number))
    return {"image": number, "width": width, "height": width * 3 // 4}


@kinds.job(queue="reports", max_attempts=3, backoff=("120ms", "1s"))
async def build_report(ctx: Context, about: str, pages: int) -> str:
    """Slow, and reports its progress: `headway jobs show ID` has that and its log."""
    ctx.log(f"collecting {about}")
    for page in range(1, pages + 1):
        await asyncio.sleep(0.12)
        ctx.progress(page / pages, f"page {page} of {pages}")
    ctx.log(f"{pages} pages written")
    return f"{about}: {pages} pages"


def workload() -> Iterator[NewJob]:
    """A few hundred jobs, including one that is bound to die and one that would run for an hour."""
    yield build_report.using(priority=1).build(about=ENDLESS, pages=30_000)
    for number in range(8):
        yield build_report.build(about=f"sales of week {number + 1}", pages=10 + number % 4)
    for number in range(220):
        yield send_email.build(number=number, to=f"customer{number}@example.com")
    yield send_email.build(number=220, to=NOBODY)
    for number in range(100):
        yield make_thumbnail.build(number=number, width=160 + 40 * (number % 3))


def _between(low: float, high: float, number: int) -> float:
    """A duration that looks random, but is always the same for the same number."""
    return low + (high - low) * (number * 37 % 101 / 100)
