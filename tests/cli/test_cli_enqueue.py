"""`headway enqueue`, on a SQLite file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest

from headway import Headway
from headway.cli.jobs.enqueue import enqueue
from headway.define.option_types import UsingOptions
from headway.model.job import Delivery, OnConflict, OnEnd, OnFailure, Source

Cli = Any


def test_enqueue_prints_the_id_and_says_that_it_made_a_file(cli: Cli, app: Headway, folder: Path) -> None:
    (folder / "headway.db").unlink()
    result = cli("enqueue", "welcome", '{"user_id": 7}')
    assert result.exit_code == 0
    job = app.get(result.stdout.strip())
    assert job.payload == {"user_id": 7}
    assert job.queue == "default"
    assert f"made a new database, {folder / 'headway.db'}" in result.stderr
    assert cli("enqueue", "welcome", '{"user_id": 8}').stderr == ""


def test_enqueue_has_the_options_of_using() -> None:
    flags = {option.name: option for option in enqueue.params if isinstance(option, click.Option)}
    of_the_command = {"app_spec", "app_dir", "url", "config", "log_level", "log_format", "log_fields", "json"}
    # a connection cannot be typed
    assert set(flags) - of_the_command == set(get_type_hints(UsingOptions)) - {"conn"}
    for name, literal in {
        "on_canceled": OnEnd,
        "on_dead": OnEnd,
        "on_failure": OnFailure,
        "on_conflict": OnConflict,
        "delivery": Delivery,
        "source": Source,
    }.items():
        choice = flags[name].type
        assert isinstance(choice, click.Choice)
        assert tuple(choice.choices) == get_args(literal)


def test_enqueue_takes_what_orders_and_limits(cli: Cli, app: Headway) -> None:
    first, second = cli.ok("enqueue", "bill").strip(), cli.ok("enqueue", "bill").strip()
    flags = {
        "--train": "dest_42",
        "--on-canceled": "hold",
        "--on-dead": "hold",
        "--partition": "order:42",
        "--concurrency": "3",
        "--concurrency-key": "c42",
        "--rate": "100/min",
        "--burst": "10",
        "--rate-key": "r42",
        "--on-failure": "continue",
        "--source": "system",
        "--created-by": "grace",
    }
    made = cli.json(
        "enqueue", "bill", *[part for pair in flags.items() for part in pair], "--after", first, "--after", second
    )
    assert made["status"] == "held"
    job = app.get(made["id"])
    assert (job.train, job.on_canceled, job.on_dead, job.partition) == ("dest_42", "hold", "hold", "order:42")
    assert (job.concurrency, job.concurrency_key) == (3, "c42")
    assert (job.rate_count, job.rate_period_ms, job.rate_burst, job.rate_key) == (100, 60_000, 10, "r42")
    assert (job.source, job.created_by, job.pending) == ("system", "grace", True)
    app.cancel(first)
    app.cancel(second)
    assert app.get(made["id"]).status == "queued"  # on_failure says that it runs all the same


def test_enqueue_adds_to_a_group(cli: Cli, app: Headway) -> None:
    @app.job
    def bill(order: int) -> None: ...

    group = app.group([bill.build(order=1)])
    made = cli.ok("enqueue", "bill", '{"order": 2}', "--group", group.id).strip()
    assert app.get(made).group_id == group.id
    assert [job["id"] for job in cli.json("jobs", "list", "--group", group.id)] == [made, group.jobs[0].id]
    assert cli.ok("jobs", "cancel", "--group", group.id, "--dry-run") == "would cancel 2 jobs\n"
    next_page = cli("jobs", "list", "--group", group.id, "--limit", "1").stderr
    assert f"jobs list --group {group.id} --limit 1 --before {made}" in next_page
    other = app.group([bill.using(train="a b").build(order=3)])
    both = ("--group", group.id, "--group", other.id)
    assert [job["id"] for job in cli.json("jobs", "list", *both)] == [other.jobs[0].id, made, group.jobs[0].id]
    assert " ".join(("jobs list", *both, "--limit 1")) in cli("jobs", "list", *both, "--limit", "1").stderr
    car = app.enqueue("bill", {"order": 4}, train="c").id
    trains = ("--train", "a b", "--train", "c")
    assert [job["id"] for job in cli.json("jobs", "list", *trains)] == [car, other.jobs[0].id]
    assert cli.ok("jobs", "cancel", *trains, *both, "--dry-run") == "would cancel 1 job\n"


def test_enqueue_takes_every_option_of_a_job(cli: Cli, app: Headway) -> None:
    scheduled = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    expires = scheduled + timedelta(hours=1)
    flags = {
        "--queue": "slow",
        "--tenant": "acme",
        "--priority": "7",
        "--scheduled-for": scheduled.isoformat(),
        "--expires-at": expires.isoformat(),
        "--max-attempts": "4",
        "--max-losses": "2",
        "--backoff": "3s",
        "--timeout": "1m30s",
        "--delivery": "at_most_once",
        "--idempotency-key": "i1",
        "--unique-key": "u1",
        "--unique-scope": "queued,scheduled",
        "--on-conflict": "raise",
        "--correlation-id": "c1",
        "--trace-id": "t1",
        "--source-ref": "r1",
    }
    made = cli.json(
        "enqueue", "bill", "-", *[part for pair in flags.items() for part in pair],
        "--meta", "a=1", "--meta", '{"b": 2}', stdin='{"order": 1}',
    )  # fmt: skip
    assert made["created"] is True
    assert made["status"] == "scheduled"
    job = app.get(made["id"])
    assert job.payload == {"order": 1}
    assert (job.queue, job.tenant, job.priority) == ("slow", "acme", 7)
    assert (job.scheduled_for, job.expires_at) == (scheduled, expires)
    assert (job.max_attempts, job.max_losses, job.backoff_base_ms, job.timeout_ms) == (4, 2, 3_000, 90_000)
    assert (job.delivery, job.idempotency_key, job.unique_key) == ("at_most_once", "i1", "u1")
    assert set(job.unique_scope) == {"queued", "scheduled"}
    assert (job.correlation_id, job.trace_id, job.source_ref) == ("c1", "t1", "r1")
    assert job.meta == {"a": "1", "b": 2}
    assert job.created_by is not None
    assert job.created_by.startswith("ada@")


def test_enqueue_with_an_app_uses_its_options_and_checks_the_arguments(cli: Cli, app: Headway) -> None:
    job = app.get(cli.ok("enqueue", "welcome", '{"user_id": 7}', "--app", "shopapp:app").strip())
    assert (job.queue, job.max_attempts) == ("mail", 3)
    assert "user_id" in cli.refused("enqueue", "welcome", '{"user_id": "x"}', "--app", "shopapp", code=2)
    said = cli.refused("enqueue", "welcom", "--app", "shopapp", code=2)
    assert "did you mean welcome?" in said
    assert "--app none" in said


def test_a_repeated_enqueue_says_that_the_job_was_there(cli: Cli) -> None:
    first = cli("enqueue", "welcome", "--idempotency-key", "k")
    second = cli("enqueue", "welcome", "--idempotency-key", "k")
    assert first.stdout == second.stdout
    assert "exists already, and is queued" in second.stderr
    cli.ok("enqueue", "welcome", "--unique-key", "u")
    said = cli.refused("enqueue", "welcome", "--unique-key", "u", "--on-conflict", "raise", code=1)
    assert "u" in said


def test_an_enqueue_may_replace_or_debounce_the_job_that_has_its_key(cli: Cli, app: Headway) -> None:
    by = ("enqueue", "report", '{"user": 7, "n": 1}', "--unique-by", "user", "--unique-group", "g")
    first = cli.ok(*by).strip()
    again = cli(*by[:2], '{"n": 2, "user": 7}', *by[3:], "--on-conflict", "replace", "--replace", "payload,queue")
    assert again.stdout.strip() == first
    assert "this job existed already, and is queued: it was replaced" in again.stderr
    made = cli.json(*by[:2], '{"n": 3, "user": 7}', *by[3:], "--debounce", "5s", "--debounce-max", "1m")
    assert made == {"id": first, "status": "scheduled", "created": False, "replaced": True}
    assert (app.get(first).payload, app.get(first).unique_group) == ({"user": 7, "n": 3}, "g")
    assert "unique group" in cli.ok("jobs", "show", first)
    timed = ("enqueue", "report", "--unique-key", "u", "--unique-for", "10m")
    made = cli.ok(*timed).strip()
    app.cancel(made)
    assert cli.json(*timed) == {"id": made, "status": "canceled", "created": False, "replaced": False}
    assert "cannot be replaced" in cli.refused(*by, "--on-conflict", "replace", "--replace", "id", code=2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("welcome", '{"user_id": 7'), "invalid value for the payload: this is not JSON"),
        (("welcome", "[1]"), "an object is needed"),
        (("welcome", "--meta", "x"), "'x' is neither KEY=VALUE nor a JSON object"),
        (("welcome", "--unique-key", "u", "--unique-scope", "lost"), "'lost' is no status"),
        (("welcome", "--scheduled-for", "2031-01-01T00:00:00"), "carries no zone: write 2031-01-01T00:00:00Z"),
        (("welcome", "--scheduled-for", "soon"), "'soon' is not a time"),
        (("welcome", "--delay", "5 bananas"), "is not a duration"),
        (("welcome", "--rate", "5/fortnight"), "'5/fortnight' is not a rate: write 100/min"),
        (("welcome", "--burst", "5"), "burst=5 means nothing without rate"),
        (("welcome", "--after", "nope"), "after has 'nope', which is not a job"),
        (("welcome", "--train", ""), "train"),
        (("welcome", "--delay", "5m", "--scheduled-for", "2031-01-01T00:00:00Z"), "exclude each other"),
        (("wel come",), "is not a valid name"),
    ],
)
def test_enqueue_refuses_what_cannot_be(cli: Cli, args: tuple[str, ...], message: str) -> None:
    assert message in cli.refused("enqueue", *args, code=2)
