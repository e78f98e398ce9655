"""app.tenant(name): the same verbs, seeing and writing only that tenant's jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.ids import tenant_id
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def work(app: Headway) -> Any:
    @app.job
    def work(number: int) -> int:
        return number

    return work


def test_a_tenant_reads_and_changes_only_its_own(app: Headway, work: Any, call: Call) -> None:
    acme, other = app.tenant("acme"), app.tenant("other")
    mine = call(acme, "enqueue", "work", {"number": 1})
    theirs = call(other, "enqueue", "work", {"number": 2})
    nobodys = call(work, "enqueue", 3)
    assert [job.id for job in call(acme, "jobs")] == [mine.id]
    assert call(acme, "counts") == {"queued": 1}
    assert call(acme, "get", mine.id).tenant == "acme"
    for hidden in (theirs, nobodys):
        for verb in ("get", "attempts", "cancel", "retry", "why", "result"):
            with pytest.raises(NotFound, match="another tenant's"):
                call(acme, verb, hidden.id)
        with pytest.raises(NotFound):
            call(acme, "change", hidden.id, priority=1)
    assert acme.cancel_jobs(status="queued") == 1
    assert {job.id: job.status for job in call(app, "jobs")} == {
        mine.id: "canceled",
        theirs.id: "queued",
        nobodys.id: "queued",
    }
    assert acme.retry_jobs(status="canceled") == 1
    assert drain(app).succeeded == 3
    assert call(acme, "result", mine.id, timeout=5).value == 1


def test_keys_of_different_tenants_do_not_meet(app: Headway, work: Any, call: Call) -> None:
    for key in ("unique_key", "idempotency_key"):
        first = call(app.tenant("acme"), "enqueue", "work", {"number": 1}, **{key: "k"})
        second = call(app.tenant("other"), "enqueue", "work", {"number": 1}, **{key: "k"})
        assert first.created is second.created is True
        assert first.id != second.id


def test_another_tenants_job_is_not_enqueued_through_it(app: Headway, work: Any, call: Call) -> None:
    acme = app.tenant("acme")
    with pytest.raises(NotAllowed, match="acts for tenant acme only, not for other"):
        call(acme, "enqueue", "work", {"number": 1}, tenant="other")
    with pytest.raises(NotAllowed, match="acts for tenant acme only"):
        call(acme, "enqueue_many", [work.build(1), work.using(tenant="other").build(2)])
    with pytest.raises(NotAllowed, match="sees tenant acme only, not other"):
        call(acme, "jobs", tenant="other")
    assert call(app, "jobs") == []
    call(acme, "enqueue", work.using(tenant="acme").build(1))
    call(acme, "enqueue_many", [work.build(2)])
    assert {job.tenant for job in call(app, "jobs", tenant="acme")} == {"acme"}


def test_queues_belong_to_everybody(app: Headway, call: Call) -> None:
    for verb in ("pause", "resume"):
        with pytest.raises(NotAllowed, match="queues are shared by all tenants"):
            call(app.tenant("acme"), verb, "default")


def test_a_tenant_is_a_name_or_a_uuid(app: Headway, work: Any, call: Call) -> None:
    call(app.tenant("acme"), "enqueue", "work", {"number": 1})
    (job,) = call(app.tenant(tenant_id("acme")), "jobs")
    assert (job.tenant, job.tenant_id) == ("acme", tenant_id("acme"))
    for wrong in ("", "no spaces", "ä", "x" * 64):
        with pytest.raises(InvalidJob, match="is not a valid name"):
            app.tenant(wrong)


def test_an_app_can_be_one_tenants_as_a_whole(url: str) -> None:
    app = Headway(url, tenant="acme")
    job = app.enqueue("work", {"number": 1})
    assert app.get(job.id).tenant == "acme"
    assert app.get(app.enqueue("work", tenant="other").id).tenant == "other"
    app.close()
