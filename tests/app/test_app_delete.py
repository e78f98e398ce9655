"""Delete through the app: one job or many, in both colours, for one tenant or for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.app import delete
from headway.errors import InvalidJob, NotAllowed, NotFound

Call = Callable[..., Any]


def canceled(app: Headway, count: int = 1, kind: str = "mail", **options: Any) -> list[str]:
    ids = [app.enqueue(kind, **options).id for _ in range(count)]
    for job_id in ids:
        app.cancel(job_id)
    return ids


def test_one_job_is_deleted_for_good(app: Headway, call: Call) -> None:
    (job_id,) = canceled(app)
    assert call(app, "delete", job_id, reason="as asked", actor="ann") is None
    with pytest.raises(NotFound):
        app.get(job_id)
    with pytest.raises(NotFound, match="there is no job"):
        call(app, "delete", job_id)
    assert [(entry.actor, entry.action, entry.detail) for entry in app.audit(job_id)][1:] == [
        ("ann", "delete", "mail, canceled: as asked")
    ]


def test_an_unfinished_job_is_refused(app: Headway, call: Call) -> None:
    job = app.enqueue("mail")
    with pytest.raises(NotAllowed, match=f"job {job.id} is queued: only a finished job .* cancel it first"):
        call(app, "delete", job.id)
    assert app.get(job.id).status == "queued"


def test_a_limit_deletes_the_oldest(app: Headway, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete, "BATCH", 2)
    monkeypatch.setattr("headway.app.aio.delete.BATCH", 2)
    ids = canceled(app, 6)
    assert call(app, "delete_jobs", kind="mail", limit=5) == 5
    assert [job.id for job in app.jobs()] == ids[-1:]


def test_many_are_deleted_in_batches(app: Headway, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete, "BATCH", 3)
    monkeypatch.setattr("headway.app.aio.delete.BATCH", 3)
    canceled(app, 8)
    canceled(app, 2, "report")
    live = app.enqueue("mail").id
    assert call(app, "delete_jobs", kind="mail", dry_run=True) == 8
    assert app.count_jobs(kind="mail") == 9
    assert [call(app, "delete_jobs", kind="mail", limit=limit, dry_run=True) for limit in (2, 5, 99)] == [2, 5, 8]
    assert call(app, "delete_jobs", kind="mail", status=("canceled", "dead"), reason="wrong file", actor="ann") == 8
    assert [job.id for job in app.jobs(kind="mail")] == [live]
    assert call(app, "delete_jobs", queue="default") == 2
    assert [(entry.actor, entry.detail) for entry in app.audit_log(action="delete")] == [
        (None, "2 jobs: queue=default"),
        *(("ann", f"{count} jobs: kind=mail status=canceled,dead: wrong file") for count in (2, 3, 3)),
    ]


def test_nobody_deletes_all_or_what_is_not_over_by_mistake(app: Headway, call: Call) -> None:
    with pytest.raises(InvalidJob, match="which jobs to delete"):
        call(app, "delete_jobs")
    with pytest.raises(InvalidJob, match="status='queued' is not finished, and only finished jobs can be deleted"):
        call(app, "delete_jobs", status=("dead", "queued"), dry_run=True)
    with pytest.raises(InvalidJob, match="status='gone' does not exist"):
        call(app, "delete_jobs", status="gone")


def test_a_tenant_deletes_only_its_own(app: Headway, call: Call) -> None:
    (mine,) = canceled(app, tenant="acme")
    (other,) = canceled(app, tenant="beta")
    acme = app.tenant("acme")
    with pytest.raises(NotFound):
        call(acme, "delete", other)
    assert call(acme, "delete_jobs", status="canceled") == 1
    assert [job.id for job in app.jobs()] == [other]
    assert [entry.detail for entry in acme.audit_log(action="delete")] == ["mail, canceled: status=canceled"]
    assert app.tenant("beta").audit(mine) == []
