"""Events and secrets: what an event says never decides which secrets a job is given."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import apsw
import psycopg
import pytest

from headway import Headway
from headway.errors import InvalidPayload
from headway.model.ids import new_id
from headway.testing import drain


def test_an_event_does_not_choose_which_secrets_its_job_is_given(
    app: Headway, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "kx7Qz9mw2")

    @app.job
    def note(body: Any, token: str = "") -> None:
        ran.append((body, token))

    app.create_trigger(
        "t", "mail.came", kind="note", payload={"body": "{{event.body}}", "token": {"$secret": "PLANTED"}}
    )
    with pytest.raises(InvalidPayload, match=r'event: \$\.body is a reference to a secret \("\$secret"\), and only'):
        app.emit("mail.came", {"body": {"$secret": "PLANTED"}})
    with pytest.raises(InvalidPayload, match=r"event: \$\.body is a reference"):
        app.test_trigger("t", {"body": {"$secret": "PLANTED"}})
    with pytest.raises(InvalidPayload, match=r"signal: \$\[0\] is a reference"):
        app.signal(new_id(), "paid", [{"$secret": "PLANTED"}])
    # one that got into the table all the same
    stored = app.emit("mail.came", {"body": {"_secret": "PLANTED"}})
    app.emit("mail.came", {"body": "fine"})
    _put(app, "update headway.events set payload = replace(payload::text, '_secret', '$secret')::json")
    drain(app)
    assert ran == [("fine", "kx7Qz9mw2")]
    event = app.get_event(stored)
    assert event.status == "failed"
    assert event.error is not None
    assert "holds a reference to a secret" in event.error


def _put(app: Headway, statement: str) -> None:
    if app.url.startswith("postgres"):
        with psycopg.connect(app.url, autocommit=True) as conn:
            conn.execute(statement)  # type: ignore[call-overload]
        return
    with closing(apsw.Connection(app.url.removeprefix("sqlite:///"))) as conn:
        conn.execute(statement.replace("headway.", "").replace("payload::text", "payload").replace("::json", ""))
