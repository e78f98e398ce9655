"""Workers killed around artifacts: every row has its bytes, and no byte is left without its row."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import apsw
import psycopg

from tests.crash.artifact_jobs import POINTS, RESULT, store
from tests.crash.crash_site import CrashSite
from tests.crash.payload_enqueuer import TEXT
from tests.crash.processes import until


def test_rows_and_bytes_agree_wherever_a_worker_is_killed(site: CrashSite, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    (tmp_path / "points").write_text(" ".join((*POINTS, "sweep", "swept")))
    settings = {"artifacts": str(folder)}
    job = site.app.enqueue(store.build())
    while site.app.get(job.id).status != "succeeded":
        worker = site.fleet.worker(app="artifact_jobs", **settings)
        until(lambda worker=worker: worker.code is not None or site.app.get(job.id).status == "succeeded", "its end")
    # what the killed attempts left is swept, by workers that are killed around it, too
    while not (tmp_path / "died-swept").exists():
        worker = site.fleet.worker(app="artifact_jobs", **settings)
        until(lambda worker=worker: worker.code is not None or (tmp_path / "died-swept").exists(), "the sweep")
    site.fleet.worker(app="artifact_jobs", **settings)
    assert all((tmp_path / f"died-{point}").exists() for point in POINTS)
    site.app.configure(artifacts=str(folder))
    until(lambda: len(_files(folder)) == len(site.app.artifacts(job.id)), "the sweep of what no artifact has")
    found = site.app.artifacts(job.id)
    # attempts that were killed after a row keep that artifact, and the last attempt's result is the job's
    assert [each.size for each in found if each.name == "report.bin"] == [2_097_152] * 4
    fences = [each.fence for each in found if each.name == ".result.json"]
    assert fences == [len(POINTS) + 1, len(POINTS)]
    assert site.app.result(job.id).value == RESULT
    assert sorted(each.path for each in found) == _files(folder)
    for each in found:
        site.app.download_artifact(each.id, tmp_path / each.id)  # checks its hash
    statuses = [attempt.status for attempt in site.app.attempts(job.id)]
    assert statuses == [*["lost"] * len(POINTS), "succeeded"]
    site.app.delete(job.id)
    until(lambda: not _files(folder), "the bytes go with the job")
    assert site.app.artifacts() == []


def test_a_payload_has_its_job_or_is_swept_wherever_an_enqueuer_is_killed(site: CrashSite, tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    assert site.fleet.script(program="payload_enqueuer", artifacts=str(folder)).ended() == 0
    site.app.configure(artifacts=str(folder))
    (job,) = site.app.jobs()
    (kept,) = site.app.artifacts()
    assert (kept.job_id, kept.name) == (job.id, ".payload.json")
    assert len(_files(folder)) == 3  # of those killed since the bytes were written
    site.app.run("main", until_idle=True)
    assert site.app.result(job.id).value == f"committed {len(TEXT)}"
    assert len(_files(folder)) == 3  # somebody might still be about to enqueue them
    if site.is_sqlite:
        with closing(apsw.Connection(site.url.removeprefix("sqlite:///"))) as conn:
            conn.execute("update artifact_trash set since = since - 3600000001")
    else:
        with psycopg.connect(site.url) as conn:
            conn.execute("update headway.artifact_trash set since = since - interval '61 minutes'")
    site.app.run("main", until_idle=True)
    assert _files(folder) == [kept.path]


def _files(folder: Path) -> list[str]:
    """Every file of the folder, parts included, but for its id."""
    # os.walk passes over a folder that a worker removes meanwhile
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names if name != "id")
    return sorted(str(path.relative_to(folder)) for path in found)
