"""`headway definitions`, on both stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.model.definition import Definition

Cli = Any


@pytest.fixture
def declared(either: Headway) -> Headway:
    """An app whose worker has written what its code says of a kind."""

    @either.job(queue="mail", max_attempts=3, timeout="30s")
    def welcome(user_id: int) -> None:
        """Says hello."""

    now = either.store.run(either.store.ops.now())
    either.store.run(either.store.ops.declare(either._declaration(now)))
    return either


def test_list_and_show(cli: Cli, declared: Headway) -> None:
    lines = cli.ok("definitions").splitlines()
    assert lines[0].split() == [
        "KIND", "STATE", "QUEUE", "ATTEMPTS", "TIMEOUT", "SCHEMA", "FROM", "CHANGED", "FOR",
    ]  # fmt: skip
    assert lines[1].split() == ["welcome", "active", "mail", "3", "30s", "yes", "code", "Says", "hello."]
    assert set(cli.json("definitions", "list")[0]) == set(Definition.__struct_fields__)
    page = cli.ok("definitions", "show", "welcome")
    for words in ("welcome  active\n", "queue          mail", "max_attempts   3", "timeout        30s", "Says hello."):
        assert words in page
    assert 'there is no definition of "nope"' in cli.refused("definitions", "show", "nope", code=1)


def test_an_empty_list_says_who_writes_it(cli: Cli, either: Headway) -> None:
    assert "a worker writes those of its kinds when it starts" in cli("definitions").stderr


def test_change_and_reset(cli: Cli, declared: Headway, folder: Path) -> None:
    schema = {"type": "object", "required": ["user_id"]}
    (folder / "schema.json").write_text(json.dumps(schema))
    said = cli.ok(
        "definitions", "change", "welcome", "--timeout", "none", "--queue", "slow", "--schema", "@schema.json"
    )
    assert said.startswith("welcome: ")
    found = declared.get_definition("welcome")
    assert (found.timeout_ms, found.queue, found.schema, found.max_attempts) == (None, "slow", schema, 3)
    result = cli("definitions", "show", "welcome")
    assert "queue          slow  (changed here)" in result.stdout
    assert "schema  (changed here)" in result.stdout
    assert "headway definitions reset welcome" in result.stderr
    assert "schema, timeout, queue" in cli.ok("definitions", "list")
    assert cli.ok("definitions", "reset", "welcome", "timeout") == "welcome: timeout as the code has it again\n"
    assert cli.ok("definitions", "reset", "welcome") == "welcome: schema, queue as the code has it again\n"
    found = declared.get_definition("welcome")
    assert (found.timeout_ms, found.queue, found.changed) == (30_000, "mail", ())
    assert found.schema["properties"] == {"user_id": {"type": "integer"}}  # what the annotations say
    assert cli.ok("definitions", "reset", "welcome") == "welcome: nothing of it was changed\n"
    assert cli.ok("definitions", "reset", "welcome", "queue") == "welcome: queue was not changed\n"
    assert "nothing to change" in cli.refused("definitions", "change", "welcome", code=2)
    cli.ok("definitions", "change", "welcome", "--enqueuer-may", '{"timeout": "5m", "queue": ["mail"]}')
    assert cli.json("definitions", "show", "welcome")["enqueuer_may"] == {"timeout": 300_000, "queue": ["mail"]}
    assert "enqueuer_may  (changed here)" in cli.ok("definitions", "show", "welcome")
    cli.ok("definitions", "change", "welcome", "--enqueuer-may", "none")
    assert cli.json("definitions", "show", "welcome")["enqueuer_may"] == {}
    assert "no restricted option" in cli.refused(
        "definitions", "change", "welcome", "--enqueuer-may", '{"priority": true}', code=2
    )
    assert "the schema cannot be used" in cli.refused(
        "definitions", "change", "welcome", "--schema", '{"type": "objec"}', code=2
    )


def test_an_inactive_kind_is_refused_until_it_is_active(cli: Cli, declared: Headway) -> None:
    assert cli.ok("definitions", "deactivate", "welcome").startswith("welcome: inactive; new jobs of it are refused")
    assert "headway definitions activate welcome" in cli.refused("enqueue", "welcome", '{"user_id": 7}', code=1)
    assert "headway definitions activate welcome" in cli("definitions", "show", "welcome").stderr
    assert cli.ok("definitions", "deactivate", "welcome") == "welcome: was inactive already\n"
    assert cli.json("definitions", "activate", "welcome")[0]["active"] is True
    cli.ok("enqueue", "welcome", '{"user_id": 7}')
    assert "there is no definition" in cli.refused("definitions", "deactivate", "welcome", "nope", code=1)
    assert declared.get_definition("welcome").active


def test_a_kind_can_be_made_and_deleted(cli: Cli, either: Headway) -> None:
    result = cli("definitions", "change", "later", "--max-attempts", "9")
    assert result.stdout == "later: max_attempts changed, for jobs from now on\n"
    assert result.stderr == "no worker has declared this kind yet\n"
    assert either.get(cli.ok("enqueue", "later").strip()).max_attempts == 9
    assert "delete the definition of later" in cli.refused("definitions", "delete", "later", code=2)
    assert cli.ok("definitions", "delete", "later", "--yes") == "later: deleted\n"
    assert either.definitions() == []
