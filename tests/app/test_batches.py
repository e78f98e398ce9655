"""Much at once: a batch of too much JSON is refused before anything is sent, a list of large jobs ends early."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.errors import InvalidPayload
from headway.model import codec
from headway.store import paging


def test_lists_of_several_statuses_miss_nothing_where_one_of_them_ends_early(
    app: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LIST_BYTES", 20_000)
    monkeypatch.setattr(paging, "_FIRST", 3)

    @app.job
    async def works(text: str) -> None: ...

    ids = [works.using(delay="1h" if n % 3 else None).enqueue("x" * (2_000 if n % 3 else 10)).id for n in range(30)]
    found: list[str] = []
    while page := app.jobs(status=["queued", "scheduled"], limit=20, before=found[-1] if found else None):
        found += [job.id for job in page]
    assert found == ids[::-1]


def test_a_batch_that_is_too_large_is_refused_and_nothing_of_it_stored(
    app: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "BATCH_LIMIT", 1_000)

    @app.job
    async def works(text: str) -> None: ...

    small = [works.build("x" * 100) for _ in range(5)]
    with pytest.raises(InvalidPayload, match="nothing was stored; make several calls"):
        app.enqueue_many([*small, works.build("x" * 900)])
    with pytest.raises(InvalidPayload, match="signals of this call"):
        app.signal_many(app.build_signal(small[0].id, "go", "x" * 400) for _ in range(3))
    with pytest.raises(InvalidPayload, match="events of this call"):
        app.emit_many(app.build_event("paid", {"x": "x" * 400}) for _ in range(3))
    assert app.counts() == {}
    assert len(app.enqueue_many(small)) == 5
