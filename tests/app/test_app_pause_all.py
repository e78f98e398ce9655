"""Pause and resume all queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
