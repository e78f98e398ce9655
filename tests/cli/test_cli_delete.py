"""`headway jobs delete`: by id or by filter, counted, asked for, refused."""

from __future__ import annotations

from typing import Any

from headway import Headway

Cli = Any


def canceled(app: Headway, count: int = 1, kind: str = "welcome") -> list[str]:
    ids = [app.enqueue(kind).id for _ in range(count)]
    app.cancel_jobs(kind=kind)
    return ids


def test_by_id(cli: Cli, either: Headway) -> None:
    first, second, third = canceled(either, 3)
    live = either.enqueue("welcome").id
    assert cli.json("jobs", "delete", first, "--dry-run") == [{"id": first, "status": "canceled"}]
    assert cli.ok("jobs", "delete", first, "--reason", "as asked") == f"{first}  deleted\n"
    assert "is queued: only a finished job can be deleted" in cli.refused("jobs", "delete", live, code=1)
    result = cli("jobs", "delete", second, live)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == f"{second}  deleted"
    assert f"{live}  not done: job {live} is queued" in result.stdout
    assert cli.json("jobs", "delete", third) == [{"id": third, "deleted": True}]
    assert [job.id for job in either.jobs()] == [live]
    entry = either.audit(first)[-1]
    assert (entry.actor.split("@")[0], entry.detail) == ("ada", "welcome, canceled: as asked")


def test_by_filter(cli: Cli, either: Headway) -> None:
    canceled(either, 3)
    (other,) = canceled(either, 1, "report")
    live = either.enqueue("welcome").id
    assert cli.ok("jobs", "delete", "--kind", "welcome", "--dry-run") == "would delete 3 jobs\n"
    assert "this would delete 3 jobs" in cli.refused("jobs", "delete", "--kind", "welcome", code=2)
    assert cli.json("jobs", "delete", "--kind", "welcome", "--yes") == {"dry_run": False, "jobs": 3}
    assert [job.id for job in either.jobs()] == [live, other]
    assert cli.ok("jobs", "delete", "--status", "canceled", "--yes") == "1 job deleted\n"
    assert cli.ok("jobs", "delete", "--status", "canceled") == "0 jobs deleted\n"
    assert "which jobs? Give their ids, or filters" in cli.refused("jobs", "delete", code=2)
    assert "ids and filters exclude" in cli.refused("jobs", "delete", live, "--kind", "welcome", code=2)
    said = cli.refused("jobs", "delete", "--status", "queued", "--yes", code=2)
    assert "only finished jobs can be deleted" in said
