"""Enqueue middleware: sees each job before it is stored, changes it, or refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob, InvalidPayload
from headway.model.job import NewJob

Call = Callable[..., Any]


@pytest.fixture
def mail(app: Headway) -> Any:
    @app.job(tags="mail")
    def mail(n: int = 0) -> int:
        return n

    return mail


def test_every_enqueue_goes_through_it_once(app: Headway, call: Call, mail: Any) -> None:
    seen: list[str] = []

    @app.enqueue_middleware
    def trace(job: NewJob) -> dict[str, Any]:
        seen.append(job.id)
        return {"trace_id": f"t{len(seen)}", "tags": ["traced"], "meta": {"by": "middleware"}}

    @app.enqueue_middleware
    def urgent(job: NewJob) -> dict[str, Any] | None:
        assert job.trace_id is not None  # in the order of their definition
        return {"priority": 1} if job.payload == '{"n":7}' else None

    app.create_template("t", "mail")
    made = [
        call(mail, "enqueue", 7),
        call(app, "enqueue", "mail", {"n": 1}, meta={"own": 1}),
        *call(app, "enqueue_many", [mail.build(2), mail.build(3)]),
        *call(app, "group", [mail.build(4)]).jobs,
        call(app, "run_template", "t"),
        call(app.tenant("acme"), "enqueue", "mail", {}),
    ]
    jobs = [app.get(each.id) for each in made]
    assert [job.trace_id for job in jobs] == [f"t{n}" for n in range(1, 8)]
    assert seen == [job.id for job in jobs]
    assert {job.tags for job in jobs} == {("mail", "traced")}
    assert [job.priority for job in jobs] == [1, *[100] * 6]
    assert jobs[1].meta == {"by": "middleware"}
    assert jobs[-1].tenant == "acme"


def test_what_it_gives_is_as_strict_as_using(app: Headway, call: Call, mail: Any) -> None:
    answers: list[Any] = []
    app.enqueue_middleware(lambda job: answers[-1])
    for answer, error, said in (
        ({"max_attempts": 0}, InvalidJob, "max_attempts=0 is out of range"),
        ({"tags": "a b"}, InvalidJob, "which is not a tag"),
        ({"colour": 1}, InvalidJob, "using\\(\\) has no option colour"),
        ({"conn": 1}, InvalidJob, "gave conn, which is the caller's"),
        ("x", InvalidJob, "gave str: enqueue middleware returns a mapping"),
        ({"on_conflict": "raise"}, InvalidJob, "does nothing without a key"),
        ({"payload": {"n": "x"}}, InvalidPayload, "n"),
    ):
        answers.append(answer)
        with pytest.raises(error, match=said):
            call(mail, "enqueue")
    assert app.jobs() == []
    answers.append({"payload": {"n": 9}, "max_attempts": 2, "queue": "q", "unique_key": "u", "delay": "1h"})
    job = app.get(call(mail, "enqueue").id)
    assert (job.payload, job.max_attempts, job.max_losses, job.queue, job.unique_key, job.status) == (
        *({"n": 9}, 2, 2),
        *("q", "u", "scheduled"),
    )


def test_what_it_raises_refuses_the_whole_batch(app: Headway, call: Call, mail: Any) -> None:
    @app.enqueue_middleware
    def no_thirteen(job: NewJob) -> None:
        if job.payload == '{"n":13}':
            raise LookupError("unlucky")

    with pytest.raises(LookupError, match="unlucky"):
        call(app, "enqueue_many", [mail.build(1), mail.build(13)])
    assert app.jobs() == []


def test_it_is_a_plain_function(app: Headway) -> None:
    async def later(job: NewJob) -> None: ...

    with pytest.raises(InvalidJob, match="is async, and blocking enqueues cannot wait for it"):
        app.enqueue_middleware(later)  # type: ignore[arg-type]
