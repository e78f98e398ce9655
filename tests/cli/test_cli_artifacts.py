"""`headway artifacts`, on both stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway import Context, Done, Headway, Machine, step
from headway.model.ids import new_id


def test_artifacts_are_listed_and_downloaded(
    cli: Any, either: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_ARTIFACTS", str(tmp_path / "artifacts"))
    app = Headway(either.url)

    @app.job
    def export(ctx: Context) -> None:
        ctx.artifact("orders.csv", "a,b\n1,2\n")
        ctx.artifact("log.txt", "x" * 12_345)

    assert "no artifacts" in cli("artifacts").stderr
    job = export.using(tenant="acme").enqueue()
    app.run(until_idle=True)
    app.close()
    listed = cli.json("artifacts", "list", "--job", job.id)
    assert [(each["name"], each["size"], each["fence"]) for each in listed] == [
        ("log.txt", 12_345, 1),
        ("orders.csv", 8, 1),
    ]
    log, orders = listed
    page = cli("artifacts", "list", "--tenant", "acme", "--limit", "1")
    assert ("log.txt" in page.stdout, "12,345" in page.stdout, "orders.csv" in page.stdout) == (True, True, False)
    assert f"--limit 1 --before {log['id']}" in page.stderr
    assert cli.json("artifacts", "list", "--before", log["id"]) == [orders]
    assert cli.json("artifacts", "list", "--tenant", "default") == []
    assert cli.ok("artifacts", "get", orders["id"], "--to", str(tmp_path)) == f"{tmp_path}/orders.csv  8 bytes\n"
    assert (tmp_path / "orders.csv").read_text() == "a,b\n1,2\n"
    again = ("artifacts", "get", orders["id"], "--to", str(tmp_path / "orders.csv"))
    assert "is there already: --force overwrites it" in cli.refused(*again, code=1)
    assert cli.json(*again, "--force")["file"] == str(tmp_path / "orders.csv")
    assert "cannot be written" in cli.refused(
        "artifacts", "get", orders["id"], "--to", str(tmp_path / "no" / "x"), code=1
    )
    assert "there is no artifact" in cli.refused("artifacts", "get", new_id(), code=1)
    assert "'nope' is not an artifact id: ids are UUIDs, as artifact.id" in cli.refused(
        "artifacts", "get", "nope", code=1
    )
    assert "there is no artifact" in cli.refused("artifacts", "get", orders["id"], "--tenant", "other", code=1)
    assert cli.ok("artifacts", "get", orders["id"], "--to", "-") == "a,b\n1,2\n"
    monkeypatch.setenv("HEADWAY_ARTIFACTS", str(tmp_path / "elsewhere"))
    assert "which this process does not have" in cli.refused("artifacts", "get", orders["id"], "--to", "-", code=1)


def test_a_result_too_large_for_a_row_is_shown_as_its_file(
    cli: Any, either: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_ARTIFACTS", str(tmp_path / "artifacts"))
    app = Headway(either.url, result_limit=1_000, payload_limit=1_000)

    @app.job(spill=True)
    def survey(answers: str = "") -> str:
        return "x" * 2_000

    @app.machine
    class Surveyor(Machine, spill=True):
        @step
        def start(self, ctx: Context[Any]) -> Done:
            return Done("y" * 3_000)

    job, machine = survey.enqueue(), app.enqueue("surveyor")
    app.run(until_idle=True)
    (kept,), (of_machine,) = app.artifacts(job.id), app.artifacts(machine.id)
    large = survey.enqueue("z" * 4_000)
    (of_payload,) = app.artifacts(large.id)
    app.close()
    said = cli.ok("jobs", "show", large.id)
    assert f"4,014 bytes of JSON in an artifact: headway artifacts get {of_payload.id}" in said
    assert cli.json("jobs", "show", large.id)["payload"] == {"$artifact": of_payload.id}
    assert cli.json("artifacts", "get", of_payload.id, "--to", str(tmp_path))["file"] == str(tmp_path / "payload.json")
    said = cli.ok("machines", "show", machine.id)
    assert f"3,002 bytes of JSON in an artifact: headway artifacts get {of_machine.id}" in " ".join(said.split())
    assert "$artifact" not in said
    assert f"2,002 bytes of JSON in an artifact: headway artifacts get {kept.id}" in cli.ok("jobs", "show", job.id)
    assert cli.json("jobs", "show", job.id)["result"] == {"$artifact": kept.id}
    assert cli.json("jobs", "wait", job.id)["result"] == "x" * 2_000
    assert cli.json("artifacts", "get", kept.id, "--to", str(tmp_path))["file"] == str(tmp_path / "result.json")
