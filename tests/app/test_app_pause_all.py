"""Pause and resume all queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import NotAllowed

Call = Callable[..., Any]


def test_every_queue_that_exists_is_paused_and_resumed(app: Headway, call: Call) -> None:
    for queue in ("mail", "report"):
        app.enqueue("work", queue=queue)
    app.pause("report", actor="eve")
    assert call(app, "pause_all", actor="ann") == ["mail"]
    app.enqueue("work", queue="later")
    assert {queue.name: queue.paused_by for queue in app.queues()} == {"mail": "ann", "report": "eve", "later": None}
    assert call(app, "resume_all", actor="bob") == ["mail", "report"]
    assert not any(queue.paused for queue in app.queues())
    assert [(entry.actor, entry.action, entry.detail) for entry in app.audit_log()][:2] == [
        ("bob", "resume", "report"),
        ("bob", "resume", "mail"),
    ]


def test_a_tenant_pauses_nobodys_queues(app: Headway, call: Call) -> None:
    app.enqueue("work", tenant="acme")
    with pytest.raises(NotAllowed, match="queues are shared by all tenants"):
        call(app.tenant("acme"), "pause_all")
    assert not app.queues()[0].paused


def test_sql_pauses_and_resumes_the_same_queues(postgres_migrated_url: str) -> None:
    app = Headway(postgres_migrated_url, strict_kinds=False)

    def all_queues(verb: str) -> list[str]:
        with psycopg.connect(postgres_migrated_url, autocommit=True) as conn:
            return [name for (name,) in conn.execute(f"select headway.{verb}('ann')")]

    app.enqueue("work", queue="mail")
    app.enqueue("work", queue="report", delay="1h")
    app.pause("paused", actor="eve")
    app.fair("set")
    assert all_queues("pause_all") == ["mail", "report", "set"]
    assert {queue.name: queue.paused_by for queue in app.queues()} == {
        "mail": "ann",
        "report": "ann",
        "set": "ann",
        "paused": "eve",
    }
    assert all_queues("pause_all") == []
    assert all_queues("resume_all") == ["mail", "paused", "report", "set"]
    assert all_queues("resume_all") == []
    assert not any(queue.paused for queue in app.queues())
    assert [(entry.actor, entry.action, entry.detail) for entry in app.audit_log()][:2] == [
        ("ann", "resume", "set"),
        ("ann", "resume", "report"),
    ]
    app.close()
