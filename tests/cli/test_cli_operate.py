"""`headway queues`, `workers`, `migrate`, `doctor`, on both stores where they differ; and how every command ends."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from headway import Headway
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.store.sqlite.engine.migrate import VERSION

Cli = Any
Start = Callable[..., "subprocess.Popen[str]"]


def register(app: Headway, *, lease_ms: int = 60_000, queue: str = "mail") -> str:
    worker = NewWorker(
        id=new_id(), hostname="elsewhere", pid=77, machine=None, process_started=None, version="1",
        queues={queue: 5}, kinds=("welcome",), concurrency=5, lease_ms=lease_ms,
    )  # fmt: skip
    app.store.run(app.store.ops.register(worker))
    return worker.id


def test_queues_are_paused_and_go_on(cli: Cli, either: Headway) -> None:
    either.enqueue("welcome", {"user_id": 7}, queue="mail")
    assert "paused" in cli.ok("queues", "pause", "mail")
    row = next(line for line in cli.ok("queues").splitlines() if line.startswith("mail"))
    assert "paused" in row
    assert "by ada@" in row
    assert cli.json("queues", "list")[0]["paused"] is True
    assert cli.ok("queues", "resume", "mail") == "mail: resumed\n"
    assert cli.json("queues", "pause", "mail")[0]["paused"] is True
    assert cli.json("queues", "resume", "mail")[0]["paused"] is False
    assert cli.ok("queues", "resume", "mail") == "mail: was not paused\n"


def test_a_queue_that_nobody_uses_is_pointed_out(cli: Cli, either: Headway) -> None:
    either.enqueue("welcome", {"user_id": 7}, queue="mail")
    assert "no job and no worker uses queue mial yet (known: mail)" in cli("queues", "pause", "mial").stderr


def test_stale_workers_are_marked(cli: Cli, either: Headway) -> None:
    live, stale = register(either), register(either, lease_ms=0)
    found = {worker["id"]: worker["stale"] for worker in cli.json("workers")}
    assert found == {live: False, stale: True}
    lines = {line.split()[0]: line for line in cli.ok("workers", "list").splitlines()}
    assert "stale" in lines[stale]
    assert "live" in lines[live]


def test_doctor_finds_nothing_wrong_with_a_new_database(cli: Cli, either: Headway) -> None:
    answer = cli.json("doctor")
    assert answer["ok"] is True
    names = [check["name"] for check in answer["checks"]]
    assert {"settings", "database", "reach", "schema", "queues", "workers", "clock"} <= set(names)
    dialect = (
        {"library", "durability", "disk", "privacy"}
        if either.store.dialect == "sqlite"
        else {"server", "tenants", "roles", "horizon", "vacuum"}
    )
    assert dialect <= set(names)
    assert "all is well" in cli.ok("doctor")


def test_doctor_passes_on_every_supported_set_up(cli: Cli, postgres_url: str, folder: Path) -> None:
    cli.ok("--url", postgres_url, "migrate")
    cli.ok("--url", postgres_url, "doctor")
    cli.ok("--url", postgres_url, "migrate", "--roles")
    parts = urlsplit(postgres_url)
    name = parts.path[1:]
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f"create role worker_of_{name} login password 'x' in role headway_worker_{name}")
    worker_url = urlunsplit(parts._replace(netloc=f"worker_of_{name}:x@{parts.netloc.rpartition('@')[2]}"))
    try:
        for url in (postgres_url, worker_url, f"sqlite:///{folder}/a.db", f"sqlite+stdlib:///{folder}/b.db"):
            app = Headway(url)
            app.counts()
            assert "all is well" in cli.ok("--url", url, "doctor")
            app.enqueue("welcome", {"user_id": 7}, queue="mail")
            register(app)  # a worker of that queue
            assert " live" in cli.ok("--url", url, "doctor")
            app.close()
            cli.ok("--url", url, "prune")
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as conn:
            conn.execute(f"drop role worker_of_{name}")


def test_doctor_looks_at_declared_secrets(
    cli: Cli, either: Headway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_PASSWORD", "x")
    file = folder / "headway.toml"
    file.write_text('[secrets.SMTP_PASSWORD]\n[secrets.NOT_HERE]\nkinds = ["a"]\n[secrets."B_*"]\n')
    (found,) = (check for check in cli.json("doctor")["checks"] if check["name"] == "secrets")
    assert (found["status"], found["detail"]) == (
        "note",
        "declared, and not set here (a worker may have them): NOT_HERE",
    )
    file.write_text("[secrets.SMTP_PASSWORD]\nkind = 7\n")
    (found,) = (check for check in json.loads(cli("doctor", "--json").stdout)["checks"] if check["status"] == "problem")
    assert "'kind' is not known in [secrets.SMTP_PASSWORD]" in found["detail"]


def test_doctor_finds_waiting_work_and_lost_workers(cli: Cli, either: Headway) -> None:
    either.enqueue("welcome", {"user_id": 7}, queue="mail")
    either.enqueue("welcome", {"user_id": 7}, queue="slow")
    either.enqueue("welcome", {"user_id": 7}, queue="shut")
    either.pause("slow", actor="ada")
    either.limit(queue="shut", max_running=0)
    register(either, lease_ms=0)
    result = cli("doctor", "--json")
    assert result.exit_code == 1
    fixes = {check["fix"] for check in json.loads(result.stdout)["checks"] if check["status"] == "problem"}
    assert {
        "headway queues resume slow",
        "headway queues set shut --max-running none",
        "headway worker module:app --queues mail",
        "start a worker: it takes its jobs over",
    } <= fixes
    page = cli("doctor")
    assert page.exit_code == 1
    assert "✗ queues" in page.stdout
    assert "fix: headway queues resume slow" in page.stdout


def test_doctor_finds_jobs_that_run_under_nobody(cli: Cli, either: Headway) -> None:
    job = either.enqueue("welcome", {"user_id": 7})
    worker = register(either)
    either.store.run(either.store.ops.claim(worker, "default", 1))
    either.store.run(either.store.ops.unregister(worker))
    checks = json.loads(cli("doctor", "--json").stdout)["checks"]
    assert [check["detail"] for check in checks if check["name"] == "jobs"] == [
        f"1 job running under no worker: welcome {job.id}"
    ]


def test_doctor_finds_trains_on_hold(cli: Cli, either: Headway) -> None:
    for tenant in ("default", "acme"):
        either.enqueue("welcome", {"user_id": 7}, train="dest 1", tenant=tenant)
        either.tenant(tenant).hold_train("dest 1", reason="a full disk")
    either.hold_train("empty")
    checks = [check for check in json.loads(cli("doctor", "--json").stdout)["checks"] if check["name"] == "trains"]
    problems = {check["fix"]: check["detail"] for check in checks if check["status"] == "problem"}
    assert set(problems) == {"headway trains show 'dest 1'", "headway trains show 'dest 1' --tenant acme"}
    assert all(": a full disk; 1 job waiting" in detail for detail in problems.values())
    assert ["headway trains resume empty" in check["detail"] for check in checks if check["status"] == "note"] == [True]
    for number in range(9):
        either.hold_train(f"another_{number}")
    assert "fix: headway trains list --blocked" in cli("doctor").stdout


def test_doctor_notes_reservations(cli: Cli, either: Headway) -> None:
    either.enqueue("welcome", {"user_id": 7}, queue="mail")
    with either.reserve("mail", holder="ada's shell"):
        page = cli("doctor").stdout
    assert "– queues      mail is reserved by ada's shell (expires in 9m" in page
    assert "1 job waiting" in page


def test_doctor_says_what_keeps_it_from_looking(cli: Cli, folder: Path) -> None:
    for url, words in (
        ("sqlite:///missing.db", "there is no file"),
        ("postgresql://me@127.0.0.1:1/work", "Connection refused"),
        ("mysql://x", "is not a database that Headway knows"),
    ):
        result = cli("--url", url, "doctor")
        assert result.exit_code == 1
        assert words in result.stdout
        assert "fix: " in result.stdout
    (folder / "headway.toml").write_text("url = \n")
    result = cli("doctor")
    assert result.exit_code == 1
    assert "is not valid TOML" in result.stdout
    assert not (folder / "missing.db").exists()


def test_doctor_finds_a_missing_schema_and_open_tables(cli: Cli, postgres_url: str) -> None:
    result = cli("--url", postgres_url, "doctor")
    assert result.exit_code == 1
    assert "✗ schema" in result.stdout
    assert "fix: headway migrate" in result.stdout
    cli.ok("--url", postgres_url, "migrate")
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("alter table headway.jobs disable row level security")
    result = cli("--url", postgres_url, "doctor")
    assert result.exit_code == 1
    assert "row-level security is off for jobs" in result.stdout
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("alter table headway.jobs enable row level security")
        conn.execute("drop policy tenant_isolation on headway.holds")
    assert "row-level security is off for holds" in cli("--url", postgres_url, "doctor").stdout


def test_doctor_says_what_the_tables_lack(cli: Cli, either: Headway) -> None:
    either.counts()
    if either.store.dialect == "sqlite":
        either.close()
        with closing(sqlite3.connect(either.store.describe())) as conn:
            conn.executescript("alter table signals drop column created_by")
    else:
        with psycopg.connect(either.url, autocommit=True) as conn:
            conn.execute("alter table headway.signals drop column created_by")
    for command in ("doctor", "migrate"):
        result = cli(command)
        assert result.exit_code == 1
        assert "its tables are not those of version 10 (signals lacks created_by)" in " ".join(result.output.split())


def test_doctor_finds_what_holds_vacuum_back(
    cli: Cli, postgres_migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.app.doctor.postgres._LONG_S", 0)
    with psycopg.connect(postgres_migrated_url) as conn:
        conn.execute("set transaction isolation level repeatable read")
        pid = conn.execute("select pg_backend_pid(), count(*) from headway.jobs").fetchone()
        assert pid is not None
        result = cli("--url", postgres_migrated_url, "doctor")
    assert result.exit_code == 1
    assert "keeps dead rows from being removed" in result.stdout
    assert f"fix: select pg_terminate_backend({pid[0]});" in result.stdout


def test_migrate_goes_up_and_down(cli: Cli, postgres_url: str) -> None:
    at = ("--url", postgres_url, "migrate")
    assert "would migrate up to version 1" in cli.ok(*at, "--dry-run")
    assert "create table headway.jobs" in cli.ok(*at, "--sql")
    plan = cli.json(*at, "--dry-run")
    assert plan["plan"][0]["title"] == "migrate up to version 10"
    assert plan["plan"][1]["locks"] == "calls of functions, for about a second"
    done = cli.json(*at)
    assert (done["before"], done["version"]) == (0, plan["to"])
    assert "nothing to do" in cli.ok(*at)
    assert "-- nothing to do" in cli.ok(*at, "--sql")
    cli.ok("--url", postgres_url, "enqueue", "welcome")
    said = cli.refused(*at, "--down", code=2)
    assert "removes Headway's schema and every job in it (1 job)" in said
    assert "add --yes" in said
    assert "nothing to do" in cli.ok(*at, "--to", str(plan["to"]))
    assert cli.json(*at, "--down", "--yes")["version"] == 0
    assert "would migrate up to version 1" in cli.ok(*at, "--dry-run")


def test_migrate_makes_roles(cli: Cli, postgres_migrated_url: str) -> None:
    at = ("--url", postgres_migrated_url, "migrate", "--roles")
    assert "create role %I nologin" in cli.ok(*at, "--sql")
    assert "would make the roles" in cli.ok(*at, "--dry-run")
    assert "one wall between tenants" in cli.ok("--url", postgres_migrated_url, "doctor")
    database = urlsplit(postgres_migrated_url).path[1:]
    assert cli.json(*at)["roles"] == [f"headway_worker_{database}", f"headway_app_{database}"]
    said = cli.ok("--url", postgres_migrated_url, "doctor")
    assert f"headway_worker_{database} and headway_app_{database} exist" in said
    assert "two walls between tenants" in " ".join(said.split())


def test_migrate_of_a_file(cli: Cli, folder: Path) -> None:
    assert "no schema" in cli.ok("migrate", "--dry-run")
    assert not (folder / "headway.db").exists()
    assert f"{folder / 'headway.db'} has schema version {VERSION}" in cli.ok("migrate")
    assert "nothing to do" in cli.ok("migrate")
    cli.ok("enqueue", "welcome")
    assert "(1 job)" in cli.refused("migrate", "--down", code=2)
    cli.ok("migrate", "--down", "--yes")
    assert "a SQLite file has no roles" in cli.refused("migrate", "--roles", code=2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--to", "99"), "there is no schema version 99"),
        (("--down", "--to", "1"), "--down takes no other option"),
        (("--roles", "--to", "1"), "exclude each other"),
    ],
)
def test_migrate_refuses_what_cannot_be(cli: Cli, flags: tuple[str, ...], message: str) -> None:
    assert message in cli.refused("migrate", *flags, code=2)


def test_errors_are_json_for_programs(cli: Cli, app: Headway) -> None:
    app.counts()
    result = cli("jobs", "show", new_id(), "--json")
    assert result.exit_code == 1
    failure = json.loads(result.stderr)
    assert failure["error"] == "NotFound"
    assert failure["exit_code"] == 1
    failure = json.loads(cli("jobs", "lits", "--json").stderr)
    assert failure["error"] == "UsageError"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("jbos",), "headway has no command 'jbos': did you mean jobs?"),
        (("jobs", "lsit"), "headway jobs has no command 'lsit': did you mean list?"),
        (("jobs", "list", "--statsu", "dead"), "--statsu"),
        (("--config", "nowhere.toml", "queues"), "'nowhere.toml' does not exist"),
        (("--log-level", "loud", "queues"), "loud"),
    ],
)
def test_a_wrong_command_line_is_answered_with_the_right_one(cli: Cli, args: tuple[str, ...], message: str) -> None:
    said = cli.refused(*args, code=2)
    assert message in said
    assert "--help" in said


def test_a_settings_file_can_be_named(cli: Cli, folder: Path) -> None:
    (folder / "other.toml").write_text('url = "sqlite:///other.db"\n')
    cli.ok("--config", "other.toml", "enqueue", "welcome")
    assert (folder / "other.db").exists()


def test_an_unexpected_error_is_one_message_too(cli: Cli, app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    app.counts()

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("headway.app.Headway.queues", fail)
    said = cli.refused("queues", code=1)
    assert "unexpected ZeroDivisionError: oh" in said
    assert "--log-level debug" in said


def test_a_reader_that_has_enough_is_no_error(app: Headway, start: Start) -> None:
    app.enqueue_many(_many(app, 3_000))
    process = start("jobs", "list", "--limit", "3000")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(180) == 141
    assert err == ""


def _many(app: Headway, count: int) -> Any:
    @app.job
    def bill(order: int) -> None: ...

    return [bill.build(order=number) for number in range(count)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_complete(cli: Cli, shell: str) -> None:
    assert "_HEADWAY_COMPLETE" in cli.ok("completion", shell)


def test_the_shell_is_given_the_commands() -> None:
    env = {"_HEADWAY_COMPLETE": "bash_complete", "COMP_WORDS": "headway jobs li", "COMP_CWORD": "2", "PATH": ""}
    found = subprocess.run(
        [sys.executable, "-m", "headway"], env=env, capture_output=True, text=True, timeout=180, check=False
    )
    assert found.stdout.split() == ["plain,list"]


def test_every_command_teaches_by_example(cli: Cli) -> None:
    from headway.cli import main

    assert "headway demo" in cli.ok("--help")
    assert cli.ok("--version").startswith("headway 0.")
    for name in main.list_commands(None):
        command = main.get_command(None, name)
        inner = list(getattr(command, "commands", {}).values())
        for each in [command, *inner]:
            assert "headway" in (each.help or ""), each.name


def test_neither_help_nor_an_app_loads_what_it_does_not_need() -> None:
    """Start-up time, measured by what is imported and not by a clock."""
    code = (
        "import sys; from headway.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'apsw', 'asyncio', 'jsonschema_rs', 'psycopg', 'rich', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
        "from headway import Headway\n"
        "print(sorted({'importlib.metadata', 'psycopg', 'rich', 'structlog'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stderr.split() == ["[]", "[]"]


def test_audit_lists_what_was_done_also_to_no_job(cli: Cli, either: Headway) -> None:
    assert cli("audit").stderr.startswith("no such entries in ")
    job = either.enqueue("welcome")
    cli.ok("queues", "pause", "mail")
    cli.ok("jobs", "cancel", job.id)
    found = cli.json("audit")
    assert [(each["action"], each["job_id"]) for each in found] == [("cancel", job.id), ("pause", None)]
    assert found[0]["actor"].startswith("ada@")
    assert [each["detail"] for each in cli.json("audit", "--action", "pause")] == ["mail"]
    page = cli("audit", "--limit", "1")
    assert f"--limit 1 --before {found[0]['id']}" in page.stderr
    assert "cancel" in page.stdout
    assert [each["action"] for each in cli.json("audit", "--before", str(found[0]["id"]))] == ["pause"]


def test_all_queues_are_paused_and_resumed(cli: Cli, app: Headway) -> None:
    for queue in ("mail", "report"):
        app.enqueue("welcome", queue=queue)
    assert cli.ok("queues", "pause", "--all") == "mail: paused\nreport: paused\n"
    assert [queue["paused"] for queue in cli.json("queues", "resume", "--all")] == [False, False]
    assert cli.json("queues", "resume", "--all") == []
    for wrong in ((), ("mail", "--all")):
        assert "which queues? Give their names, or --all" in cli.refused("queues", "pause", *wrong, code=2)
