"""A batch of more JSON than one statement can carry is refused before anything is sent."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.errors import InvalidPayload
from headway.model import codec


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
