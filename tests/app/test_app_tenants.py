"""app.tenant(name): the same verbs, seeing and writing only that tenant's jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway import Headway
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.testing import drain

Call = Callable[..., Any]
Sql = Callable[..., list[tuple[Any, ...]]]


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
    (job,) = call(app, "jobs")
    assert job.tenant == "acme"
    assert call(app.tenant(UUID(job.tenant_id)), "jobs") == call(app, "jobs", tenant=UUID(job.tenant_id)) == [job]
    call(app.tenant("acme"), "enqueue", "work", {"number": 1}, tenant=UUID(job.tenant_id))
    for wrong in ("", "no spaces", "Acme", "ä", "x" * 64, job.tenant_id, job.tenant_id.replace("-", "").upper()):
        with pytest.raises(InvalidJob, match="is not a valid name"):
            app.tenant(wrong)
        with pytest.raises(InvalidJob, match="is not a valid name"):
            call(app, "enqueue", "work", {"number": 1}, tenant=wrong)


def test_an_id_of_the_applications_own_is_a_tenant(app: Headway, work: Any, call: Call) -> None:
    own = uuid4()
    call(app, "enqueue", "work", {"number": 1}, tenant=own)
    call(app.tenant(own), "emit", "paid", {})
    (job,) = call(app, "jobs", tenant=own)
    assert job.tenant == job.tenant_id == str(own)
    assert [event.tenant_id for event in call(app.tenant(own), "events")] == [str(own)]


def test_a_name_is_looked_up_and_not_computed(app: Headway, work: Any, call: Call, sql: Sql) -> None:
    call(app, "enqueue", "work", {"number": 1}, tenant="acme")
    (job,) = call(app, "jobs")
    other = Headway(app.url)
    assert [each.id for each in call(other.tenant("acme"), "jobs")] == [job.id]  # the same one in every process
    sql("update {tenants} set slug = 'umbrella' where slug = 'acme'")
    renamed = Headway(app.url)
    assert call(renamed.tenant("acme"), "jobs") == call(renamed, "jobs", tenant="acme") == []
    assert [each.tenant for each in call(renamed.tenant("umbrella"), "jobs")] == ["umbrella"]
    for app_ in (other, renamed):
        app_.close()


def test_a_name_that_was_used_is_never_used_again(app: Headway, work: Any, call: Call, sql: Sql) -> None:
    for name in ("acme", "beta"):
        call(app, "enqueue", "work", {"number": 1}, tenant=name)
    sql("update {tenants} set slug = 'umbrella' where slug = 'acme'")
    sql("delete from {tenants} where slug = 'beta'")
    fresh = Headway(app.url)
    for name in ("acme", "beta"):
        for verb, args in (("enqueue", ("work", {"number": 1})), ("emit", ("paid",))):
            with pytest.raises(InvalidJob, match=f'"{name}" belonged to a tenant that was renamed or deleted'):
                call(fresh, verb, *args, tenant=name)
    with pytest.raises(Exception, match="default tenant keeps its name"):
        sql("update {tenants} set slug = 'mine' where slug = 'default'")
    with pytest.raises(Exception, match="never used again"):
        sql("update {tenants} set slug = 'acme' where slug = 'umbrella'")
    fresh.close()


def test_looking_makes_no_tenant(app: Headway, work: Any, call: Call, sql: Sql) -> None:
    nobody = app.tenant("nobody")
    assert call(nobody, "jobs") == call(app, "jobs", tenant="nobody") == call(nobody, "trains") == []
    assert call(nobody, "counts") == {}
    with pytest.raises(NotFound):
        call(nobody, "get", uuid4())
    assert sql("select slug from {tenants}") == [("default",)]
    call(nobody, "enqueue", "work", {"number": 1})
    assert len(call(nobody, "jobs")) == 1  # at once


def test_every_verb_that_writes_makes_the_tenant(app: Headway, work: Any, call: Call) -> None:
    call(app, "create_template", "hourly", "work", {"number": 1}, tenant="a1")
    call(app, "create_schedule", "hourly", kind="work", payload={"number": 1}, every="1h", tenant="a2")
    call(app, "create_trigger", "on-paid", "paid", kind="work", payload={"number": 1}, tenant="a3")
    call(app, "emit", "paid", tenant="a4")
    call(app, "limit", tenant="a5", max_running=1)
    call(app.tenant("a6"), "hold_train", "t")
    call(app, "group", [work.using(tenant="a7").build(1)])
    assert [template.tenant for template in call(app, "templates")] == ["a1"]
    assert [schedule.tenant for schedule in call(app, "schedules")] == ["a2"]
    assert [trigger.tenant for trigger in call(app, "triggers")] == ["a3"]
    assert [event.tenant for event in call(app, "events")] == ["a4"]
    assert [train.tenant for train in call(app, "trains")] == ["a6"]
    assert [job.tenant for job in call(app, "jobs")] == ["a7"]


def test_events_of_another_tenant_are_refused(app: Headway, call: Call) -> None:
    theirs = app.build_event("paid", tenant="other")
    with pytest.raises(NotAllowed, match="acts for tenant acme only, not for other"):
        call(app.tenant("acme"), "emit_many", [theirs])
    with pytest.raises(NotAllowed, match="acts for tenant acme only, not for default"):
        call(app.tenant("acme"), "emit_many", [app.build_event("paid")])
    assert call(app, "events") == []


def test_an_app_can_be_one_tenants_as_a_whole(url: str) -> None:
    app = Headway(url, tenant="acme")
    job = app.enqueue("work", {"number": 1})
    assert app.get(job.id).tenant == "acme"
    assert app.get(app.enqueue("work", tenant="other").id).tenant == "other"
    app.close()
