"""`headway templates`, on both stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.cli.program.failure import Refused
from headway.cli.program.options import options_of
from headway.model.template import Template

Cli = Any


def test_create_list_show(cli: Cli, either: Headway, folder: Path) -> None:
    assert cli("templates").stderr.startswith("no templates in ")
    (folder / "weekly.json").write_text('{"days": 7}')
    said = cli.ok(
        "templates", "create", "weekly", "--kind", "report", "--payload", "@weekly.json", "--option", "queue=slow",
        "--option", "unique_key=7", "--description", "for the board",
    )  # fmt: skip
    assert said == "weekly: report, revision 1\n"
    found = either.get_template("weekly")
    # a key is text, whatever it looks like
    assert (found.kind, found.payload, found.options) == ("report", {"days": 7}, {"queue": "slow", "unique_key": "7"})
    assert found.created_by is not None
    assert found.created_by.startswith("ada@")
    lines = cli.ok("templates", "list").splitlines()
    assert lines[0].split() == ["NAME", "TENANT", "KIND", "REVISION", "CHANGED", "PAYLOAD", "FOR"]
    assert lines[1].endswith('{"days": 7}  for the board')
    assert set(cli.json("templates")[0]) == set(Template.__struct_fields__)
    cli.ok("schedules", "create", "s", "--cron", "@weekly", "--template", "weekly")
    cli.ok("triggers", "create", "t", "--event", "e", "--template", "weekly")
    assert "used by        schedule s, trigger t\n" in cli.ok("templates", "show", "weekly")
    assert len(cli.json("templates", "show", "weekly")["used_by"]) == 2
    assert " template weekly " in cli.ok("schedules", "list")
    assert 'there is a template "weekly" already' in cli.refused("templates", "create", "weekly", "--kind", "x", code=1)


def test_change_counts_revisions_and_leaves_the_rest(cli: Cli, either: Headway) -> None:
    either.create_template("weekly", "report", {"days": 7}, options={"queue": "slow"})
    assert cli.ok("templates", "change", "weekly", "--option", "timeout=5m") == "weekly: report, revision 2\n"
    found = either.get_template("weekly")
    assert (found.payload, found.options) == ({"days": 7}, {"queue": "slow", "timeout": "5m"})
    changed = cli.json("templates", "change", "weekly", "--payload", "{}", "--options", "{}", "--new-name", "monthly")
    assert (changed["name"], changed["payload"], changed["options"], changed["revision"]) == ("monthly", {}, {}, 3)
    assert "nothing to change" in cli.refused("templates", "change", "monthly", code=2)
    assert 'has no template "weekly"' in cli.refused("templates", "change", "weekly", "--kind", "x", code=1)


def test_what_was_hidden_is_not_written_back() -> None:
    hidden = {"meta": {"password": "[redacted]"}}
    with pytest.raises(Refused, match="with --options"):
        options_of({"pairs": (("priority", 3),)}, hidden)
    assert options_of({"pairs": (), "options": {"priority": 3}}, hidden) == {"options": {"priority": 3}}


def test_run_lays_what_is_given_over_the_template(cli: Cli, either: Headway) -> None:
    either.create_template("weekly", "report", {"days": 7, "to": "ada"}, options={"queue": "slow", "priority": 9})
    job = either.get(
        cli.ok("templates", "run", "weekly", "--payload", '{"days": 14}', "--option", "priority=3").strip()
    )
    assert (job.kind, job.payload, job.queue, job.priority) == ("report", {"days": 14, "to": "ada"}, "slow", 3)
    assert job.created_by is not None
    assert job.created_by.startswith("ada@")
    assert job.template_revision == 1
    assert "  template       weekly, revision 1\n" in cli.ok("jobs", "show", job.id)
    assert cli.json("templates", "run", "weekly")["status"] == "queued"
    once = ("templates", "run", "weekly", "--option", "idempotency_key=k")
    cli.ok(*once)
    assert "this job exists already" in cli(*once).stderr


def test_run_can_use_the_code_of_a_kind(cli: Cli, app: Headway) -> None:
    app.create_template("hello", "welcome", {"user_id": "x"})
    assert "user_id" in cli.refused("templates", "run", "hello", "--app", "shopapp", code=2)
    made = cli.ok("templates", "run", "hello", "--app", "shopapp", "--payload", '{"user_id": 7}').strip()
    assert app.get(made).queue == "mail"


def test_delete_refuses_what_is_used_and_asks(cli: Cli, either: Headway) -> None:
    either.create_template("weekly", "report")
    either.create_schedule("s", "@weekly", template="weekly")
    assert "weekly is used by schedule s" in cli.refused("templates", "delete", "weekly", "--yes", code=1)
    either.delete_schedule("s")
    assert "delete template weekly of tenant default" in cli.refused("templates", "delete", "weekly", code=2)
    made = either.run_template("weekly")
    assert cli.ok("templates", "delete", "weekly", "--yes") == "weekly: deleted; its jobs stay\n"
    assert " (deleted), revision 1\n" in cli.ok("jobs", "show", made.id)


def test_a_template_of_another_tenant_is_pointed_at(cli: Cli, either: Headway) -> None:
    either.create_template("weekly", "report", tenant="acme")
    said = cli.refused("templates", "run", "weekly", code=1)
    assert "tenant acme has: headway templates show weekly --tenant acme" in said
    job = either.get(cli.ok("templates", "run", "weekly", "--tenant", "acme").strip())
    assert job.tenant == "acme"
