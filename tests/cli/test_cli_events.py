"""`headway events`, on both stores."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway import Headway
from headway.clock import HeldClock
from headway.model.event import Event
from headway.model.ids import new_id

Cli = Any


@pytest.fixture
def handled(either: Headway) -> tuple[Headway, str, str]:
    """An app with an event that went well, and one that failed."""
    either.create_trigger(
        "sync", "folder.updated", kind="sync", payload={"id": "{{event.id}}"}, options={"queue": "away"}
    )
    well, badly = either.emit("folder.updated", {"id": 7}), either.emit("folder.updated", {})
    either.run(until_idle=True)
    return either, well, badly


def test_emit_prints_the_id_and_says_if_nobody_listens(cli: Cli, either: Headway) -> None:
    either.create_trigger("sync", "folder.updated", kind="sync")
    result = cli("events", "emit", "folder.updated", "--payload", '{"id": 7}', "--correlation-id", "c7")
    event = either.get_event(result.stdout.strip())
    assert (event.name, event.payload, event.correlation_id) == ("folder.updated", {"id": 7}, "c7")
    assert result.stderr == ""
    assert "no enabled trigger" in cli("events", "emit", "file.made").stderr
    either.create_trigger("all", "file.*", kind="sync")
    assert cli("events", "emit", "file.made").stderr == ""
    result = cli("events", "emit", "folder.updated", "--tenant", "acme", "--payload", "-", stdin="[1]")
    assert either.get_event(result.stdout.strip()).payload == [1]
    assert "no enabled trigger of tenant acme waits for folder.updated" in result.stderr
    assert either.get_event(cli.json("events", "emit", "x")["id"]).payload is None
    assert "are the engine's own" in cli.refused("events", "emit", "headway.job.dead", code=2)
    assert "this is not JSON" in cli.refused("events", "emit", "x", "--payload", "{", code=2)


def test_list_narrows(cli: Cli, handled: tuple[Headway, str, str]) -> None:
    app, well, badly = handled
    other = app.emit("other", tenant="acme")
    lines = cli.ok("events").splitlines()
    assert lines[0].split() == ["ID", "STATUS", "NAME", "TENANT", "EMITTED", "NOTE"]
    assert [line.split()[:3] for line in lines[1:]] == [
        [other, "pending", "other"], [badly, "failed", "folder.updated"], [well, "handled", "folder.updated"],
    ]  # fmt: skip
    assert "sync: " in lines[2]
    assert [event["id"] for event in cli.json("events", "list", "--failed")] == [badly]
    assert [event["id"] for event in cli.json("events", "list", "--status", "handled")] == [well]
    assert [event["id"] for event in cli.json("events", "list", "--tenant", "acme")] == [other]
    found = cli.json("events", "list", "--name", "folder.updated")
    assert [event["id"] for event in found] == [badly, well]
    assert set(found[0]) == set(Event.__struct_fields__)
    assert "exclude each other" in cli.refused("events", "list", "--failed", "--status", "pending", code=2)
    assert cli("events", "list", "--name", "none").stderr.startswith("no events named none in ")
    more = cli("events", "list", "--name", "folder.updated", "--limit", "1").stderr.split("events ")[1].split()
    assert [event["id"] for event in cli.json("events", *more)] == [well]


def test_show_has_what_came_of_it(cli: Cli, handled: tuple[Headway, str, str]) -> None:
    app, well, badly = handled
    page = cli.ok("events", "show", well)
    job_id = app.fires(event_id=well)[0].job_id
    assert page.startswith(f"folder.updated  handled  {well}\n")
    assert '"id": 7' in page
    assert f"sync     enqueued  {job_id}  queued" in page
    result = cli("events", "show", badly)
    assert "sync: " in result.stdout
    assert "leads nowhere" in result.stdout
    assert f"headway events retry {badly}" in result.stderr
    found = cli.json("events", "show", badly)
    assert [(fire["trigger"], fire["status"]) for fire in found["fires"]] == [("sync", "failed")]
    app.delete_trigger("sync")
    assert f"(gone)   enqueued  {job_id}" in cli.ok("events", "show", well)
    assert "is not an event's id" in cli.refused("events", "show", "x", code=2)
    assert "there is no event" in cli.refused("events", "show", new_id(), code=1)


def test_what_nobody_met_says_so(cli: Cli, either: Headway) -> None:
    event_id = either.emit("nobody.cares")
    either.run(until_idle=True)
    assert "no trigger met it: nothing was enqueued" in cli("events", "show", event_id).stderr


def test_retry_takes_failed_ones_only(cli: Cli, handled: tuple[Headway, str, str]) -> None:
    app, well, badly = handled
    assert "is handled: only a failed event can be retried" in cli.refused("events", "retry", well, code=1)
    result = cli("events", "retry", well, badly, "--json")
    assert result.exit_code == 1
    assert [answer.get("status") for answer in json.loads(result.stdout)] == [None, "pending"]
    app.change_trigger("sync", payload={"id": "{{event.id?}}"})
    app.run(until_idle=True)
    assert app.get_event(badly).status == "handled"
    assert cli.ok("events", "retry", "--failed") == "nothing to retry: no such event failed\n"
    assert "which events?" in cli.refused("events", "retry", code=2)
    assert "which events?" in cli.refused("events", "retry", badly, "--failed", code=2)
    assert "'x' is not an event's id" in cli.refused("events", "retry", badly, "x", code=2)


def test_retry_of_all_counts_and_asks(cli: Cli, handled: tuple[Headway, str, str]) -> None:
    app, _, badly = handled
    said = cli.refused("events", "retry", "--failed", code=2)
    assert "this would retry 1 event, and there is no terminal to ask: add --yes" in said
    assert cli.ok("events", "retry", "--failed", "--name", "other") == "nothing to retry: no such event failed\n"
    assert cli.ok("events", "retry", "--failed", "--yes") == "1 event will be handled again\n"
    assert app.get_event(badly).status == "pending"


def test_the_doctor_sees_events_that_nobody_handles(cli: Cli, app: Headway, url: str) -> None:
    app.emit("now")
    assert "✓ events      none failed, none waits for long" in cli("doctor").stdout
    earlier = Headway(url, clock=HeldClock(datetime.now(UTC) - timedelta(minutes=5)))
    earlier.emit("then")
    earlier.close()
    page = cli("doctor").stdout
    assert "✗ events      1 event not handled yet, the oldest for 5m " in page
    assert "fix: start a worker" in page


def test_the_doctor_sees_failed_events(cli: Cli, handled: tuple[Headway, str, str]) -> None:
    page = cli("doctor").stdout
    assert "✗ events      1 event made a trigger fail" in page
    assert "fix: headway events list --failed" in page
