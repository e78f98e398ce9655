"""`headway schedules`, on both stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway import Headway
from headway.model.trigger import Trigger

Cli = Any
OnTerminal = Callable[..., list[str]]


def declare(app: Headway) -> None:
    """What a worker's start writes, with a schedule that is declared in the code."""

    @app.schedule("30 2 * * *", tz="Europe/Berlin")
    @app.job(queue="mail")
    def welcome() -> None: ...

    now = app.store.run(app.store.ops.now())
    app.store.run(app.store.ops.declare(app._declaration(now)))


def make_overdue(app: Headway, name: str, by: timedelta) -> None:
    """Set back the time at which it is due, as if no worker had been there."""
    from headway.model.trigger import TriggerChange

    schedule = app.get_schedule(name)
    now = app.store.run(app.store.ops.now())
    change = TriggerChange(next_fire_at=now - by)
    app.store.run(app.store.ops.change_trigger(schedule.id, change, tenant_id=schedule.tenant_id, actor=None))


def test_create_takes_every_option_of_a_schedule(cli: Cli, either: Headway) -> None:
    cli.ok("templates", "create", "weekly", "--kind", "report")
    start = datetime(2031, 1, 1, tzinfo=UTC)
    said = cli.ok(
        "schedules", "create", "nightly", "--cron", "0 2 * * *", "--tz", "America/New_York", "--template", "weekly",
        "--payload", '{"day": "{{schedule.date}}"}', "--option", "queue=slow", "--option", "priority=7",
        "--catch-up", "all", "--catch-up-window", "2h", "--overlap", "skip", "--jitter", "30s",
        "--start", start.isoformat(), "--end", "2032-01-01T00:00:00Z", "--description", "the books",
    )  # fmt: skip
    assert said.startswith("nightly: next at Wed 2031-01-01 02:00 EST (in ")
    found = either.get_schedule("nightly")
    assert (found.cron, found.every_ms, found.tz) == ("0 2 * * *", None, "America/New_York")
    assert found.template_id == either.get_template("weekly").id
    assert found.payload == {"day": "{{schedule.date}}"}
    assert found.options == {"queue": "slow", "priority": 7}
    assert (found.catch_up, found.catch_up_window_ms, found.overlap) == ("all", 7_200_000, "skip")
    assert (found.jitter_ms, found.start_at, found.end_at) == (30_000, start, datetime(2032, 1, 1, tzinfo=UTC))
    assert (found.description, found.enabled) == ("the books", True)
    assert found.created_by is not None
    assert found.created_by.startswith("ada@")
    said = cli.ok(
        "schedules", "create", "often", "--every", "90s", "--kind", "ping", "--options", '{"timeout": "5s"}',
        "--disabled", "--tenant", "acme", "--catch-up", "none",
    )  # fmt: skip
    assert said == "often: paused\n"
    often = either.get_schedule("often", tenant="acme")
    assert (often.every_ms, often.kind, often.options, often.enabled) == (90_000, "ping", {"timeout": "5s"}, False)
    assert often.catch_up == "none"


def test_create_says_what_is_known_of_the_kind(cli: Cli, either: Headway) -> None:
    create = ("schedules", "create")
    result = cli(*create, "a", "--every", "1h", "--kind", "later")
    assert 'no worker has declared a kind "later" yet' in result.stderr
    declare(either)
    assert cli(*create, "b", "--every", "1h", "--kind", "welcome").stderr == ""
    cli.ok("definitions", "deactivate", "welcome")
    assert "is not active, and its jobs are refused" in cli(*create, "c", "--every", "1h", "--kind", "welcome").stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--kind", "a"), "when is it due? Give one of --cron"),
        (("--cron", "* * * * *", "--every", "5m", "--kind", "a"), "when is it due?"),
        (("--every", "5m"), "what does it enqueue? Give one of --kind and --template"),
        (("--every", "soon", "--kind", "a"), "is not a duration"),
        (("--every", "5m", "--kind", "a", "--tz", "berlin"), "did you mean Europe/Berlin?"),
        (("--every", "5m", "--kind", "a", "--tz", "Mars/Olympus"), "'Mars/Olympus' is not a time zone"),
        (("--cron", "61 * * * *", "--kind", "a"), "cron='61 * * * *' cannot be read"),
        (("--every", "5m", "--kind", "a", "--option", "queue"), "'queue' is not NAME=VALUE"),
        (("--every", "5m", "--kind", "a", "--option", "queu=x"), "queu"),
        (("--every", "5m", "--kind", "a", "--payload", "[1]"), "an object is needed"),
        (("--every", "5m", "--kind", "a", "--payload", '{"x": "{{event.a}}"}'), "begins with none of schedule"),
    ],
)
def test_create_refuses_what_cannot_be(cli: Cli, app: Headway, flags: tuple[str, ...], message: str) -> None:
    app.counts()
    assert message in cli.refused("schedules", "create", "x", *flags, code=2)
    assert app.schedules() == []


def test_a_name_is_taken_once(cli: Cli, either: Headway) -> None:
    cli.ok("schedules", "create", "x", "--every", "5m", "--kind", "a")
    assert 'there is a schedule "x" already' in cli.refused(
        "schedules", "create", "x", "--every", "5m", "--kind", "a", code=1
    )
    assert 'there is no template "t"' in cli.refused(
        "schedules", "create", "y", "--every", "5m", "--template", "t", code=1
    )


def test_list_has_next_last_origin_and_what_is_wrong(cli: Cli, either: Headway, on_terminal: OnTerminal) -> None:
    assert cli("schedules").stderr.startswith("no schedules in ")
    declare(either)
    for name in ("late", "quiet", "fine"):
        cli.ok("schedules", "create", name, "--every", "1h", "--kind", "a")
    make_overdue(either, "late", timedelta(minutes=10))
    cli.ok("schedules", "pause", "quiet")
    cli.ok("schedules", "run", "fine")
    lines = cli.ok("schedules", "list").splitlines()
    assert lines[0].split() == ["NAME", "TENANT", "DUE", "ZONE", "ENQUEUES", "NEXT", "IN", "LAST", "FROM", "NOTE"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "30 2 * * *  Europe/Berlin  welcome" in rows["welcome"]
    assert " 02:30 CE" in rows["welcome"]
    assert " code" in rows["welcome"]
    assert rows["late"].endswith("stored  overdue: no worker fires it")
    assert re.search(r" 10m \d+s ago ", rows["late"])
    assert rows["quiet"].endswith("paused")
    assert "ms ago  stored" in rows["fine"] or "s ago  stored" in rows["fine"]
    found = cli.json("schedules", "list")
    assert set(found[0]) == set(Trigger.__struct_fields__)
    assert [each["origin"] for each in found] == ["code", "stored", "stored", "stored"]
    for width in (80, 120):
        lines = on_terminal(width, "schedules")
        assert max(map(len, lines)) <= width
        assert ("FROM" in lines[0]) == (width >= 100)
        assert all(any(line.startswith(name) for line in lines) for name in rows)


def test_pages_of_schedules_follow_each_other(cli: Cli, app: Headway) -> None:
    for number in range(5):
        app.create_schedule(f"s{number}", every="1h", kind="a")
    seen: list[str] = []
    flags: list[str] = ["--limit", "2"]
    while True:
        result = cli("schedules", "list", *flags)
        seen += [line.split()[0] for line in result.stdout.splitlines()[1:]]
        if not result.stderr:
            break
        flags = result.stderr.split("schedules list ")[1].split()
    assert seen == [f"s{number}" for number in range(5)]


def test_show_has_values_coming_times_and_fires(cli: Cli, either: Headway) -> None:
    cli.ok(
        "schedules", "create", "nightly", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--kind", "report",
        "--payload", '{"day": "{{schedule.date}}"}', "--overlap", "skip", "--catch-up", "all",
    )  # fmt: skip
    job_id = cli.ok("schedules", "run", "nightly").strip()
    page = cli.ok("schedules", "show", "nightly")
    for words in (
        "nightly  enabled  ",
        "due            30 2 * * * by the clock of Europe/Berlin",
        "enqueues       report",
        f"last job       {job_id}",
        "catch up       every missed time of the last 24h",
        "overlap        skip while its last job is unfinished",
        '"day": "{{schedule.date}}"',
        "LOCAL",
        "fired last",
        f"enqueued  {job_id}  queued",
    ):
        assert words in page
    found = cli.json("schedules", "show", "nightly")
    assert (len(found["upcoming"]), len(found["fires"])) == (5, 1)
    assert found["fires"][0]["job_status"] == "queued"


def test_change_sets_what_is_given_and_leaves_the_rest(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="a", options={"queue": "mail"}, end=datetime(2032, 1, 1, tzinfo=UTC))
    said = cli.ok("schedules", "change", "s", "--cron", "@daily", "--option", "priority=3", "--end", "none")
    assert said.startswith("s: next at ")
    found = either.get_schedule("s")
    assert (found.cron, found.every_ms, found.end_at) == ("@daily", None, None)
    assert found.options == {"queue": "mail", "priority": 3}
    cli.ok("schedules", "change", "s", "--options", '{"priority": 4}', "--new-name", "t")
    assert either.get_schedule("t").options == {"priority": 4}
    assert "nothing to change" in cli.refused("schedules", "change", "t", code=2)
    assert cli.json("schedules", "change", "t", "--jitter", "1m")["jitter_ms"] == 60_000


def test_what_the_code_declares_is_changed_there(cli: Cli, either: Headway) -> None:
    declare(either)
    assert "is declared in the code" in cli.refused("schedules", "change", "welcome", "--cron", "@daily", code=1)
    assert "the code, which it follows" in cli.ok("schedules", "show", "welcome")
    result = cli("schedules", "delete", "welcome", "--yes")
    assert result.stdout == "welcome: deleted; its jobs stay\n"
    assert "comes back when a worker of that code starts" in result.stderr


def test_pause_and_resume_say_what_was_so_already(cli: Cli, either: Headway) -> None:
    for name in ("a", "b"):
        either.create_schedule(name, every="1h", kind="k")
    assert cli.ok("schedules", "pause", "a", "b") == "a: paused\nb: paused\n"
    assert cli.ok("schedules", "pause", "a") == "a: was paused already\n"
    assert cli.ok("schedules", "resume", "a").startswith("a: next at ")
    assert cli.ok("schedules", "resume", "a") == "a: was not paused\n"
    assert [each["enabled"] for each in cli.json("schedules", "resume", "a", "b")] == [True, True]
    assert 'has no schedule "c"' in cli.refused("schedules", "pause", "a", "c", code=1)
    assert either.get_schedule("a").enabled


def test_run_prints_the_job_and_leaves_the_times(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="k", payload={"at": "{{schedule.name}}"}, enabled=False)
    job = either.get(cli.ok("schedules", "run", "s").strip())
    assert (job.kind, job.payload, job.source) == ("k", {"at": "s"}, "schedule")
    assert job.created_by is not None
    assert job.created_by.startswith("ada@")
    assert either.get_schedule("s").next_fire_at is None
    assert "  made by        schedule s\n" in cli.ok("jobs", "show", job.id)
    assert cli.json("schedules", "run", "s")["status"] == "enqueued"
    cli.ok("schedules", "delete", "s", "--yes")
    assert f"  made by        schedule {job.trigger_id} (deleted)\n" in cli.ok("jobs", "show", job.id)


def test_run_can_use_the_code_of_a_kind(cli: Cli, app: Headway) -> None:
    app.create_schedule("s", every="1h", kind="welcome", payload={"user_id": "x"})
    assert "user_id" in cli.refused("schedules", "run", "s", "--app", "shopapp:app", code=2)
    app.change_schedule("s", payload={"user_id": 7})
    assert app.get(cli.ok("schedules", "run", "s", "--app", "shopapp").strip()).queue == "mail"


def test_a_schedule_of_another_tenant_is_pointed_at(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="k", tenant="acme")
    said = cli.refused("schedules", "show", "s", code=1)
    assert "tenant acme has: headway schedules show s --tenant acme" in said
    assert cli.json("schedules", "show", "s", "--tenant", "acme")["tenant"] == "acme"
    assert [each["name"] for each in cli.json("schedules", "list", "--tenant", "acme")] == ["s"]
    assert cli.json("schedules", "list", "--tenant", "default") == []


def test_delete_asks(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="k")
    said = cli.refused("schedules", "delete", "s", code=2)
    assert "this would delete schedule s of tenant default, and there is no terminal to ask: add --yes" in said
    assert cli.json("schedules", "delete", "s", "--yes")["deleted"] == "s"
    assert either.schedules() == []


PREVIEW = ("schedules", "preview", "--tz", "Europe/Berlin")


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()[1:]]


def test_preview_marks_a_time_that_the_clock_jumps_over(cli: Cli) -> None:
    found = rows(cli.ok(*PREVIEW, "--cron", "30 2 * * *", "--after", "2031-03-28T12:00:00Z", "-n", "3"))
    assert [row[:3] for row in found] == [
        ["Sat 2031-03-29 02:30 CET", "+01:00", "2031-03-29 01:30Z"],
        ["Sun 2031-03-30 03:00 CEST", "+02:00", "2031-03-30 01:00Z"],
        ["Mon 2031-03-31 02:30 CEST", "+02:00", "2031-03-31 00:30Z"],
    ]
    assert [row[4:] for row in found] == [[], ["! the clock is set forward, from 02:00 to 03:00"], []]


def test_preview_marks_a_time_that_comes_twice(cli: Cli) -> None:
    found = rows(cli.ok(*PREVIEW, "--cron", "30 * * * *", "--after", "2031-10-25T23:40:00Z", "-n", "3"))
    assert [row[0] for row in found] == [
        "Sun 2031-10-26 02:30 CEST", "Sun 2031-10-26 02:30 CET", "Sun 2031-10-26 03:30 CET",
    ]  # fmt: skip
    twice = "! the clock is set back, and shows 02:30 twice: this is the"
    assert [row[4:] for row in found] == [[f"{twice} first"], [f"{twice} second"], []]


def test_preview_marks_the_first_time_after_a_change_of_the_clock(cli: Cli) -> None:
    found = cli.json(*PREVIEW, "--cron", "0 12 * * *", "--after", "2031-10-24T12:00:00Z", "-n", "3")
    assert [each["local"] for each in found] == [
        "2031-10-25T12:00:00+02:00", "2031-10-26T12:00:00+01:00", "2031-10-27T12:00:00+01:00",
    ]  # fmt: skip
    assert [each["utc"] for each in found] == ["2031-10-25T10:00:00Z", "2031-10-26T11:00:00Z", "2031-10-27T11:00:00Z"]
    assert [each["note"] for each in found] == [None, "since the one before, the clock was set back by 1h", None]


def test_preview_of_what_is_not_stored_makes_no_file(cli: Cli, folder: Any) -> None:
    assert len(cli.json("schedules", "preview", "--every", "90m", "-n", "4")) == 4
    assert list(folder.glob("*.db")) == []
    assert "which times?" in cli.refused("schedules", "preview", code=2)
    assert "give --cron '0 2 * * *'" in cli.refused("schedules", "preview", "0 2 * * *", code=2)
    assert "there is no database file" in cli.refused("schedules", "preview", "nightly", code=1)


def test_ensure_makes_a_schedule_and_changes_what_differs(cli: Cli, either: Headway) -> None:
    asked = ("schedules", "ensure", "nightly", "--cron", "0 2 * * *", "--kind", "report")
    assert cli.ok(*asked).startswith("nightly: next at ")
    assert cli.json(*asked)["revision"] == 1
    either.pause_schedule("nightly")
    assert cli.ok(*asked, "--payload", '{"day": 1}', "--tz", "Asia/Tokyo") == "nightly: paused\n"
    found = either.get_schedule("nightly")
    assert (found.payload, found.tz, found.revision) == ({"day": 1}, "Asia/Tokyo", 3)
    assert "when is it due?" in cli.refused("schedules", "ensure", "nightly", "--kind", "report", code=2)
    declare(either)
    refused = cli.refused("schedules", "ensure", "welcome", "--every", "5m", "--kind", "report", code=1)
    assert 'schedule "welcome" is declared in the code' in refused


def test_backfill_shows_what_it_would_make_and_makes_it(cli: Cli, either: Headway) -> None:
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    either.create_schedule("s", "@hourly", kind="k", payload={"at": "{{schedule.nominal_at}}"})
    asked = ("schedules", "backfill", "s", "--from", (hour - timedelta(hours=2)).isoformat(), "--to", now.isoformat())
    result = cli(*asked, "--dry-run")
    assert [row[1] for row in rows(result.stdout)] == ["planned"] * 3
    assert "3 would be fired, 0 had fired before: leave out --dry-run to fire them" in result.stderr
    assert either.jobs() == []
    assert "look with --dry-run" in cli.refused(*asked, code=2)
    assert [each["status"] for each in cli.json(*asked, "--yes", "--payload", '{"by": "ada"}')] == ["enqueued"] * 3
    newest, *_ = either.jobs()
    assert newest.payload == {"at": hour.strftime("%Y-%m-%dT%H:%M:%SZ"), "by": "ada"}
    result = cli(*asked, "--yes")
    assert [row[1] for row in rows(result.stdout)] == ["had fired before"] * 3
    assert "0 fired, 3 had fired before" in result.stderr
    (entry,) = either.audit_log(action="trigger.backfilled")
    assert (entry.actor or "").startswith("ada@")
    later = (now + timedelta(days=1)).isoformat()
    assert "has not come yet" in cli.refused(*asked[:-1], later, code=2)


def test_explain_says_an_expression_in_words_with_its_next_times(cli: Cli, folder: Any) -> None:
    asked = ("schedules", "explain", "30 2 * * MON-FRI", "--tz", "Europe/Berlin", "--after", "2031-03-28T12:00:00Z")
    said = cli.ok(*asked, "-n", "2")
    assert said.splitlines()[0] == "at 02:30 on Monday to Friday"
    assert [row[0] for row in rows(said)[1:]] == ["Mon 2031-03-31 02:30 CEST", "Tue 2031-04-01 02:30 CEST"]
    found = cli.json(*asked, "-n", "1")
    assert (found["cron"], found["words"], found["tz"]) == (
        "30 2 * * MON-FRI", "at 02:30 on Monday to Friday", "Europe/Berlin",
    )  # fmt: skip
    assert [each["utc"] for each in found["times"]] == ["2031-03-31T00:30:00Z"]
    assert len(cli.json("schedules", "explain", "*/10 * * * * *")["times"]) == 5
    assert "'25' is no hour: use 0-23" in cli.refused("schedules", "explain", "0 25 * * *", code=2)
    assert "no such day comes within fifty years" in cli.refused("schedules", "explain", "0 0 */31 2 MON#5", code=2)
    assert list(folder.glob("*.db")) == []


def test_preview_of_a_stored_one_says_if_it_fires_at_all(cli: Cli, either: Headway) -> None:
    end = datetime.now(UTC) + timedelta(hours=2)
    either.create_schedule("s", every="1h", kind="k", end=end, enabled=False)
    result = cli("schedules", "preview", "s")
    assert len(result.stdout.splitlines()) == 3
    assert "it is paused, and fires at none of them: headway schedules resume s" in result.stderr
    assert "there is no further time" in result.stderr
    assert "has a zone of its own" in cli.refused("schedules", "preview", "s", "--tz", "UTC", code=2)


def test_fires_have_their_jobs_and_page(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="k")
    assert cli("schedules", "fires", "s").stderr == "s has not fired yet\n"
    made = [cli.ok("schedules", "run", "s").strip() for _ in range(3)]
    either.cancel(made[2])
    result = cli("schedules", "fires", "s", "--limit", "2")
    assert [line.split()[-2:] for line in result.stdout.splitlines()[1:]] == [
        [made[2], "canceled"], [made[1], "queued"],
    ]  # fmt: skip
    more = result.stderr.split("schedules ")[1].split()
    assert [each["job_id"] for each in cli.json("schedules", *more)] == [made[0]]


def test_the_doctor_sees_schedules_that_nobody_fires(cli: Cli, either: Headway) -> None:
    either.create_schedule("s", every="1h", kind="k")
    assert "✓ schedules   1 enabled, none overdue" in cli("doctor").stdout
    make_overdue(either, "s", timedelta(minutes=10))
    page = cli("doctor").stdout
    assert re.search(r"✗ schedules   s is overdue: its time was 10m \d+s ago, and no worker fired it", page)
    assert "start a worker; headway schedules show s" in page


def test_schedules_and_triggers_have_labels(cli: Cli, either: Headway) -> None:
    made = cli.json("schedules", "create", "s", "--every", "1h", "--kind", "bill", "--label", "Bill everybody")
    assert made["label"] == "Bill everybody"
    assert cli.json("schedules", "change", "s", "--label", "Bill them")["label"] == "Bill them"
    assert "Bill them" in cli.ok("schedules", "show", "s")
    cli.ok("triggers", "create", "t", "--event", "paid", "--kind", "bill", "--label", "When paid")
    assert "When paid" in cli.ok("triggers", "show", "t")
    assert either.get_trigger("t").label == "When paid"
