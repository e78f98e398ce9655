"""`headway triggers`, on both stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.model.trigger import Trigger

Cli = Any
OnTerminal = Callable[..., list[str]]
PAYLOAD = '{"folder": "{{event.folder.id}}"}'


@pytest.fixture
def sync(cli: Cli, either: Headway) -> Headway:
    """An app with a trigger."""
    cli.ok(
        "triggers", "create", "sync", "--event", "folder.updated", "--kind", "sync", "--payload", PAYLOAD,
        "--when", "event.kind=checkout", "--when", "event.size=[1, 2]", "--option", "queue=slow",
        "--dedupe-window", "1h", "--dedupe-key", "{{event.folder.id}}", "--description", "follows folders",
    )  # fmt: skip
    return either


def test_create_takes_every_option_of_a_trigger(sync: Headway) -> None:
    found = sync.get_trigger("sync")
    assert (found.event, found.kind, found.payload) == ("folder.updated", "sync", json.loads(PAYLOAD))
    assert found.when == {"event.kind": "checkout", "event.size": [1, 2]}
    assert (found.options, found.dedupe_window_ms) == ({"queue": "slow"}, 3_600_000)
    assert (found.dedupe_key, found.description, found.enabled) == ("{{event.folder.id}}", "follows folders", True)
    assert found.created_by is not None
    assert found.created_by.startswith("ada@")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--kind", "a"), "which event does it wait for?"),
        (("--event", "e"), "what does it do? Give one of --kind, --template and --signal"),
        (("--event", "e", "--kind", "a", "--template", "b"), "what does it do?"),
        (("--event", "e", "--kind", "a", "--when", "x"), "'x' is not NAME=VALUE"),
        (("--event", "e", "--kind", "a", "--payload", '{"a": "{{evnt.a}}"}'), "{{evnt.a}} begins with none of event"),
        (("--event", "e", "--kind", "a", "--payload", "@none.json"), "none.json cannot be read"),
        (("--event", "a b", "--kind", "a"), "is neither the name of an event nor a pattern"),
    ],
)
def test_create_refuses_what_cannot_be(cli: Cli, app: Headway, flags: tuple[str, ...], message: str) -> None:
    app.counts()
    assert message in cli.refused("triggers", "create", "x", *flags, code=2)
    assert app.triggers() == []


def test_list_and_show(cli: Cli, sync: Headway, on_terminal: OnTerminal) -> None:
    cli.ok("triggers", "create", "alarm", "--event", "headway.job.dead", "--kind", "page", "--disabled")
    lines = cli.ok("triggers", "list").splitlines()
    assert lines[0].split() == ["NAME", "TENANT", "EVENT", "ENQUEUES", "STATE", "LAST", "DEDUPE", "NOTE"]
    assert lines[1].split()[:6] == ["sync", "default", "folder.updated", "sync", "enabled", "–"]
    assert lines[2].split()[:5] == ["alarm", "default", "headway.job.dead", "page", "disabled"]
    assert [each["name"] for each in cli.json("triggers", "list", "--event", "folder.updated")] == ["sync"]
    assert set(cli.json("triggers")[0]) == set(Trigger.__struct_fields__)
    page = cli.ok("triggers", "show", "sync")
    for words in ("sync  enabled  ", "event          folder.updated", '"event.kind": "checkout"', "has not fired yet"):
        assert words in page
    assert "the same {{event.folder.id}} makes one job in 1h" in page
    assert max(map(len, on_terminal(80, "triggers"))) <= 80
    assert cli("triggers", "list", "--event", "none").stderr.startswith("no triggers on none in ")
    several = ("--event", "none", "--event", "folder.updated")
    assert [each["name"] for each in cli.json("triggers", "list", *several)] == ["sync"]
    assert cli("triggers", "list", "--event", "a", "--event", "b").stderr.startswith("no triggers on a or b in ")


def test_change_enable_disable_delete(cli: Cli, sync: Headway) -> None:
    assert cli.ok("triggers", "change", "sync", "--dedupe-key", "none", "--option", "priority=3") == (
        "sync: waits for folder.updated\n"
    )
    found = sync.get_trigger("sync")
    assert (found.dedupe_key, found.options) == (None, {"queue": "slow", "priority": 3})
    cli.ok("triggers", "change", "sync", "--when", "event.kind=x", "--dedupe-window", "0")
    assert sync.get_trigger("sync").when == {"event.kind": "x"}
    assert "none: each event makes a job" in cli.ok("triggers", "show", "sync")
    assert "nothing to change" in cli.refused("triggers", "change", "sync", code=2)
    assert cli.ok("triggers", "disable", "sync") == "sync: disabled\n"
    assert cli.ok("triggers", "disable", "sync") == "sync: was disabled already\n"
    assert cli.json("triggers", "enable", "sync")[0]["enabled"] is True
    assert "there is no terminal to ask" in cli.refused("triggers", "delete", "sync", code=2)
    assert cli.ok("triggers", "delete", "sync", "--yes") == "sync: deleted; its jobs stay\n"
    assert 'tenant default has no trigger "sync"' in cli.refused("triggers", "show", "sync", code=1)


EVENT = {"kind": "checkout", "size": 2, "folder": {"id": 7}}


def test_test_shows_the_payload_that_would_be_made(cli: Cli, sync: Headway, folder: Path) -> None:
    result = cli("triggers", "test", "sync", "--payload", json.dumps(EVENT))
    assert json.loads(result.stdout) == {"folder": 7}
    assert "the payload of a sync job, for queue slow; nothing was stored" in result.stderr
    assert "with --app MODULE:APP" in result.stderr
    (folder / "event.json").write_text(json.dumps(EVENT))
    assert cli.json("triggers", "test", "sync", "--payload", "@event.json")["payload"] == {"folder": 7}
    assert json.loads(cli.ok("triggers", "test", "sync", "--payload", "-", stdin=json.dumps(EVENT))) == {"folder": 7}
    unsaved = ("triggers", "create", "new", "--event", "folder.seen", "--kind", "sync", "--when", "event.kind=checkout")
    assert cli.json(*unsaved, "--payload", '{"folder": "{{event.id}}"}', "--test", '{"id": 8, "kind": "checkout"}')[
        "payload"
    ] == {"folder": 8}
    assert 'event.kind is "mail"' in cli.refused(*unsaved, "--test", '{"kind": "mail"}', code=1)
    assert "new" not in [each["name"] for each in cli.json("triggers", "list")]
    assert (sync.counts(), sync.fires(trigger="sync")) == ({}, [])


def test_test_says_which_condition_is_not_met(cli: Cli, sync: Headway) -> None:
    said = cli.refused("triggers", "test", "sync", "--payload", '{"kind": "mail"}', code=1)
    assert 'event.kind is "mail", and must be "checkout"' in said
    assert "event.size is not there, and must be 1 or 2" in said
    result = cli("triggers", "test", "sync", "--payload", "null", "--json")
    assert (result.exit_code, json.loads(result.stdout)["met"]) == (1, False)


def test_test_shows_the_error_of_what_cannot_be_rendered(cli: Cli, sync: Headway) -> None:
    event = json.dumps({**EVENT, "folder": 7})
    assert "{{event.folder.id}} leads nowhere" in cli.refused("triggers", "test", "sync", "--payload", event, code=1)
    result = cli("triggers", "test", "sync", "--payload", event, "--json")
    assert result.exit_code == 1
    assert "leads nowhere" in json.loads(result.stdout)["error"]


def test_test_makes_the_checks_of_the_code(cli: Cli, app: Headway) -> None:
    app.create_trigger("greet", "user.made", kind="welcome", payload={"user_id": "{{event.id}}"})
    test = ("triggers", "test", "greet", "--app", "shopapp", "--payload")
    assert cli.json(*test, '{"id": 7}')["queue"] == "mail"
    assert "expected `int`" in cli.refused(*test, '{"id": "x"}', code=1)


def test_fires_have_their_events_and_jobs(cli: Cli, sync: Headway) -> None:
    assert cli("triggers", "fires", "sync").stderr == "sync has not fired yet\n"
    sync.emit("folder.updated", EVENT)
    sync.emit("folder.updated", EVENT)
    sync.emit("folder.updated", {**EVENT, "folder": None})
    sync.run(until_idle=True)
    found = cli.json("triggers", "fires", "sync")
    assert [fire["status"] for fire in found] == ["failed", "deduped", "enqueued"]
    assert found[1]["job_id"] == found[2]["job_id"]
    assert found[2]["job_status"] == "queued"
    lines = cli.ok("triggers", "fires", "sync").splitlines()
    assert lines[0].split() == ["FIRED", "EVENT", "FIRE", "JOB", "JOB", "STATUS", "ERROR"]
    assert "leads nowhere" in lines[1]
    result = cli("triggers", "fires", "sync", "--limit", "2")
    more = result.stderr.split("triggers ")[1].split()
    assert [fire["id"] for fire in cli.json("triggers", *more)] == [found[2]["id"]]
    assert "failed: " in cli.ok("triggers", "list")
    assert "error of its last fire" in cli.ok("triggers", "show", "sync")
    assert "  made by        trigger sync\n" in cli.ok("jobs", "show", found[2]["job_id"])


def test_a_trigger_that_sends_a_signal(cli: Cli, app: Headway) -> None:
    made = cli("triggers", "create", "paid", "--event", "order.paid", "--signal", "payment", "--to", "shop:{{event.o}}")
    assert (made.exit_code, made.stdout) == (0, "paid: waits for order.paid\n")
    assert "signal payment to shop:{{event.o}}" in cli("triggers", "list").stdout
    page = cli("triggers", "show", "paid").stdout
    assert "payment to shop:{{event.o}}" in page
    assert "none: each event sends a signal" in page
    told = cli("triggers", "test", "paid", "--payload", '{"o": 7}')
    assert json.loads(told.stdout) == {"o": 7}
    assert "the data of signal payment to shop:7; nothing was sent" in told.stderr
    assert "it would send no signal" in cli("triggers", "test", "paid", "--payload", "{}").stderr
    changed = json.loads(cli("triggers", "change", "paid", "--to", "shop:{{event.p}}", "--json").stdout)
    assert (changed["signal"], changed["signal_to"], changed["kind"]) == ("payment", "shop:{{event.p}}", None)
    alone = cli("triggers", "create", "other", "--event", "order.paid", "--signal", "payment")
    assert (alone.exit_code, "--signal and --to go together" in alone.stderr) == (2, True)
