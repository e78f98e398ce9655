"""Somebody's open transaction holds the row of a job that its worker reports on."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.api.chapters import worker as chapter


@pytest.mark.parametrize("app", ["postgres"], indirect=True)  # on SQLite nobody else writes while a row is held
def test_a_log_is_stored_once_the_row_is_free(app: Headway, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = app.enqueue("welcome", {"user_id": 0}).id
    (job,) = work.claim()
    assert work.say("heartbeat", job, log="first\n", log_at=0).status_code == 200
    read = chapter._reports
    reports: list[Any] = []
    with psycopg.connect(app.url) as user:
        user.execute("select from headway.jobs where id = %s for update", [job_id])

        def freed_before_the_second(*args: Any) -> Any:
            if reports:
                user.rollback()
            reports.append(read(*args))
            return reports[-1]

        monkeypatch.setattr(chapter, "_reports", freed_before_the_second)
        assert work.say("heartbeat", job, log="second\n", log_at=6, progress=0.5).status_code == 200
    shown = app.get(job_id)
    assert (shown.log_tail, shown.progress, len(reports)) == ("first\nsecond\n", 0.5, 2)


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
def test_a_row_that_stays_locked_does_not_keep_the_heartbeat(app: Headway, work: Any) -> None:
    job_id = app.enqueue("welcome", {"user_id": 0}).id
    (job,) = work.claim()
    with psycopg.connect(app.url) as user:
        user.execute("select from headway.jobs where id = %s for update", [job_id])
        assert work.say("heartbeat", job, log="lost\n", log_at=0).status_code == 200
    assert app.get(job_id).log_tail is None
