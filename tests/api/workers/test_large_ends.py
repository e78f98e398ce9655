"""Large ends: read beside the event loop, and only where the worker runs the job."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.api.workers import ends

BIG = "password=hunter2 " * 500


@pytest.fixture
def read(monkeypatch: Any) -> list[tuple[int, int]]:
    """The length of each error that was searched for secrets, and the thread in which it was."""
    seen: list[tuple[int, int]] = []
    quoted = ends.quoted_error

    def noted(text: str) -> str:
        seen.append((len(text), threading.get_ident()))
        return quoted(text)

    monkeypatch.setattr(ends, "quoted_error", noted)
    return seen


def test_of_jobs_that_it_does_not_run_nothing_is_read(app: Headway, work: Any, read: list[tuple[int, int]]) -> None:
    job_ids = [app.enqueue("welcome", {"user_id": n}).id for n in range(2)]
    running, over = sorted(work.claim(limit=2), key=lambda job: job_ids.index(job["id"]))
    work.say("complete", over)
    bad = {"error": BIG, "stdout_tail": BIG}
    strange = [{"id": str(uuid4()), "fence": 1, **bad} for _ in range(30)]
    settled = work.many(
        "settle",
        jobs=[
            *strange,
            {"id": running["id"], "fence": running["fence"] + 1, **bad},
            {"id": over["id"], "fence": over["fence"], **bad},
        ],
    )
    assert settled.status_code == 200, settled.text
    lost = [each["id"] for each in settled.json()["lost"]]
    assert lost == [*(each["id"] for each in strange), running["id"], over["id"]]
    assert (settled.json()["settled"], sum(length for length, _ in read)) == ([], 0)
    assert [app.get(job_id).status for job_id in job_ids] == ["running", "succeeded"]


def test_what_it_runs_is_read_in_a_thread(app: Headway, work: Any, read: list[tuple[int, int]]) -> None:
    for n in range(10):
        app.enqueue("welcome", {"user_id": n})
    said = [{"id": job["id"], "fence": job["fence"], "error": BIG} for job in work.claim(limit=10)]
    assert work.say("fail", said[0], error=BIG).status_code == 200
    assert [thread == threading.get_ident() for _, thread in read] == [True]
    read.clear()
    for _ in range(2):  # again: its answer was lost
        settled = work.many("settle", jobs=[said[0] | {"error": "x" * 70_000}, *said[1:]]).json()
        assert ([each["status"] for each in settled["settled"]], settled["lost"]) == (["scheduled"] * 10, [])
    assert {thread == threading.get_ident() for _, thread in read if thread} == {False}
    assert sum(length for length, _ in read) == 9 * len(BIG)
    for each in said:
        (attempt,) = app.attempts(each["id"])
        assert attempt.error == "password=[redacted] " * 500


def test_a_repeated_step_of_a_large_batch_goes_on(app: Headway, work: Any) -> None:
    app.change_definition("order", queue="mail")
    app.enqueue("order", {"n": 1})
    (job,) = work.claim()
    state = {"text": "x" * 70_000}
    end = {"id": job["id"], "fence": 1, "outcome": {"next": "pay", "state": state}, "continue": True}
    first, again = [work.many("settle", jobs=[end]).json() for _ in range(2)]
    assert [each["fence"] for each in first["continued"]] == [2]
    assert again["continued"] == first["continued"]


def test_a_fault_in_a_large_batch_is_pointed_at(app: Headway, work: Any) -> None:
    app.enqueue("welcome", {"user_id": 1})
    (job,) = work.claim()
    strange = [{"id": str(uuid4()), "fence": 1, "error": BIG} for _ in range(10)]
    for place, each in ((3, strange[3]), (10, {"id": job["id"], "fence": 1, "error": BIG})):
        jobs: list[dict[str, Any]] = [*strange, {"id": job["id"], "fence": 1}]
        jobs[place] = {**each, "delay": "soon"}
        refused = work.many("settle", jobs=jobs)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, f"/jobs/{place}/delay")
    assert app.get(job["id"]).status == "running"
