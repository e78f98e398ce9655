"""Somebody's open transaction on what a fire needs: the other fires go on, and that one comes later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.testing import drain


@pytest.fixture
def app(postgres_migrated_url: str) -> Iterator[Headway]:
    """On PostgreSQL: on SQLite an open write transaction stops every writer, which is documented."""
    app = Headway(postgres_migrated_url)
    yield app
    app.close()


@contextmanager
def holding(url: str, statement: str, *params: Any) -> Iterator[None]:
    with psycopg.connect(url) as conn:
        conn.execute(statement, params)  # type: ignore[call-overload]
        yield
        conn.rollback()


def test_events_go_on_beside_a_key_and_a_trigger_that_somebody_holds(app: Headway, postgres_migrated_url: str) -> None:
    ran: list[str] = []

    @app.job
    def note(text: str) -> None:
        ran.append(text)

    payload = {"text": "{{trigger.name}} {{event.n}}"}
    app.create_trigger("keyed", "paid", kind="note", payload=payload, options={"unique_key": "k"})
    app.create_trigger("free", "paid", kind="note", payload=payload)
    held = app.create_trigger("held", "shipped", kind="note", payload=payload)
    app.create_trigger("other", "shipped", kind="note", payload=payload, tenant="acme")
    app.emit("paid", {"n": 1})
    app.emit("shipped", {"n": 2})
    app.emit("paid", {"n": 3})
    app.emit("shipped", {"n": 4}, tenant="acme")
    change = 'select headway.change_trigger(%s, \'{"description": "x"}\')'
    with (
        holding(postgres_migrated_url, "select headway.enqueue('note', unique_key => 'k')"),
        holding(postgres_migrated_url, change, held.id),
    ):
        drain(app)
        assert sorted(ran) == ["free 1", "free 3", "other 4"]
    drain(app)
    assert sorted(ran) == ["free 1", "free 3", "held 2", "keyed 1", "other 4"]
    assert [fire.status for fire in app.fires(trigger="keyed")] == ["deduped", "enqueued"]


@pytest.mark.parametrize(
    "held",
    ["select headway.declare('[]', '[]')", "select headway.change_definition('note', '{\"description\": \"x\"}')"],
)
def test_a_worker_starts_beside_a_definition_that_somebody_holds(
    app: Headway, postgres_migrated_url: str, held: str
) -> None:
    @app.schedule(every="1h")
    @app.job
    def note() -> None: ...

    job = app.enqueue("note")
    with holding(postgres_migrated_url, held):
        drain(app)
        assert app.get(job.id).status == "succeeded"
        assert app.definitions() == []
    drain(app)
    assert [each.kind for each in app.definitions()] == ["note"]
    assert len(app.schedules()) == 1
