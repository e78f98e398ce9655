"""The verbs of flows: journals as people read them, accept, fork, cancel; in both colours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from headway import Flow, Headway
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.testing import drain

Call = Callable[..., Any]


class Shop:
    """A flow whose steps note that they ran, and whose code can change."""

    def __init__(self, app: Headway) -> None:
        self.app = app
        self.ran: list[str] = []
        self.second = "charge"
        self.fails = False

        def reserve(order: int) -> dict[str, Any]:
            self.ran.append("reserve")
            return {"order": order, "password": "hunter2"}

        def charge() -> str:
            self.ran.append("charge")
            if self.fails:
                raise ValueError("declined")
            return "ch_1"

        def tax() -> str:
            self.ran.append("tax")
            return "taxed"

        @app.job(queue="packing")
        def pack(order: int) -> str:
            return f"parcel {order}"

        steps = {"charge": charge, "tax": tax}

        @app.flow(max_attempts=1)
        async def checkout(flow: Flow, order: int) -> list[Any]:
            got = [await flow.step(reserve, order), await flow.step(steps[self.second])]
            paid = await flow.receive("payment", timeout="3d")
            return [*got, paid, await flow.call(pack, order=order)]

        self.flow = checkout

    def waiting(self) -> str:
        job = self.flow.enqueue(order=4)
        drain(self.app)
        assert self.app.get(job.id).status == "waiting"
        return job.id

    def set_aside(self) -> str:
        job_id = self.waiting()
        self.second = "tax"
        self.app.signal(job_id, "payment", {"amount": 3})
        drain(self.app)
        assert self.app.get(job_id).status == "scheduled"
        return job_id


@pytest.fixture
def shop(app: Headway) -> Shop:
    return Shop(app)


def test_a_journal_has_what_was_recorded(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.waiting()
    app.signal(job_id, "payment", {"amount": 3, "token": "t0ps3cret"})
    drain(app, "packing")
    drain(app)
    rows = call(app, "journal", job_id)
    assert [(row.kind, row.place) for row in rows] == [
        ("done", "reserve"),
        ("done", "charge"),
        ("due", "receive:payment"),
        ("signal", "receive:payment"),
        ("called", "call:pack"),
        ("ended", "call:pack"),
    ]
    reserved, _, due, paid, called, ended = rows
    assert reserved.value["order"] == 4
    assert reserved.tries == 1
    assert due.due_at > due.at
    assert (paid.signal, paid.value) == ("payment", {"amount": 3, "token": "[redacted]"})
    assert called.job_id == ended.job_id == app.children(job_id)[0].id
    assert (ended.status, ended.value) == ("succeeded", "parcel 4")
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)
    assert b"t0ps3cret" in bytes(call(app, "journal", job_id, raw=True)[3].value)


def test_a_journal_shows_failed_tries_and_what_was_taken_back(app: Headway, shop: Shop, call: Call) -> None:
    shop.fails = True
    job = shop.flow.enqueue(order=4)
    drain(app)
    assert app.get(job.id).status == "dead"
    failed = call(app, "journal", job.id)[-1]
    assert (failed.kind, failed.place, failed.error, failed.tries) == ("failed", "charge", "ValueError: declined", 1)
    shop.fails = False
    app.retry(job.id)
    drain(app)
    assert [(row.kind, row.place) for row in call(app, "journal", job.id)][:2] == [
        ("done", "reserve"),
        ("done", "charge"),
    ]
    every = call(app, "journal", job.id, everything=True)
    assert [(row.kind, row.place) for row in every if not row.counts] == [
        ("failed", "charge"),
        ("cut", ""),
        ("forgotten", ""),
    ]
    assert shop.ran == ["reserve", "charge", "charge"]


def test_only_flows_have_a_journal(app: Headway, call: Call) -> None:
    @app.job
    def plain() -> None: ...

    job = plain.enqueue()
    for verb in ("journal", "accept"):
        with pytest.raises(NotAllowed, match="is not a flow, and has no journal"):
            call(app, verb, job.id)
    with pytest.raises(NotAllowed, match="is not a flow: before and results are of flows"):
        call(app, "fork", job.id, before="charge")


def test_another_tenant_sees_no_journal(app: Headway, shop: Shop) -> None:
    job_id = shop.waiting()
    other = app.tenant("globex")
    for act in (other.journal, other.accept, lambda job: other.fork(job, before="charge")):
        with pytest.raises(NotFound):
            act(job_id)


def test_accept_forgets_from_where_the_code_differs(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.set_aside()
    charge = app.journal(job_id)[1].seq
    assert call(app, "accept", job_id, actor="ada") == charge
    assert app.get(job_id).status == "queued"
    drain(app)
    assert shop.ran == ["reserve", "charge", "tax"]
    drain(app, "packing")
    drain(app)
    assert app.result(job_id, timeout=0).value[1:] == ["taxed", {"amount": 3}, "parcel 4"]
    entry = next(each for each in app.audit(job_id) if each.action == "accept")
    assert (entry.actor, entry.detail) == ("ada", f"from {charge}")


def test_accept_takes_a_number_where_no_error_names_one(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.waiting()
    with pytest.raises(
        NotAllowed, match=r"is waiting, and its last attempt names no recorded answer .*: give from_seq"
    ):
        call(app, "accept", job_id)
    with pytest.raises(InvalidJob, match="from_seq=0 is no row"):
        call(app, "accept", job_id, 0)
    charge = next(row.seq for row in call(app, "journal", job_id) if row.place == "charge")
    assert call(app, "accept", job_id, charge) == charge
    drain(app)
    assert shop.ran == ["reserve", "charge", "charge"]
    shop.fails = True
    app.cancel(job_id, at_once=True)
    with pytest.raises(NotAllowed, match="is canceled, so nothing of its journal was taken back: retry it"):
        call(app, "accept", job_id)


def test_a_flow_that_is_set_aside_is_tried_at_once_by_a_retry(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.set_aside()
    shop.second = "charge"
    assert call(app, "retry", job_id) == job_id
    drain(app)
    drain(app, "packing")
    drain(app)
    assert app.get(job_id).status == "succeeded"
    assert shop.ran == ["reserve", "charge"]


def test_a_fork_goes_on_before_an_operation(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.waiting()
    _, charge, due = app.journal(job_id)
    fork = call(app, "fork", job_id, before="charge", actor="ada")
    drain(app)
    assert shop.ran == ["reserve", "charge", "charge"]
    made = app.get(fork.id)
    assert (made.status, made.forked_from, made.payload) == ("waiting", job_id, {"order": 4})
    assert made.source_ref == f"fork of {job_id} before {charge.seq}"
    assert app.get(job_id).status == "waiting"
    again = call(app, "fork", job_id, before=due.seq, results={"charge": "ch_9", "reserve": {}})
    app.signal(again.id, "payment", 1)
    drain(app)
    drain(app, "packing")
    drain(app)
    assert app.result(again.id, timeout=0).value == [{}, "ch_9", 1, "parcel 4"]
    assert shop.ran == ["reserve", "charge", "charge"]


def test_a_fork_may_replace_signals_failures_and_ends(app: Headway, shop: Shop, call: Call) -> None:
    shop.fails = True
    job = shop.flow.enqueue(order=4)
    drain(app)
    charge = app.journal(job.id)[-1].seq
    fork = call(app, "fork", job.id, before=charge + 1, results={"charge": "ch_2"})
    app.signal(fork.id, "payment", 1)
    drain(app)
    drain(app, "packing")
    drain(app)
    assert app.result(fork.id, timeout=0).value[1:] == ["ch_2", 1, "parcel 4"]
    last = max(row.seq for row in app.journal(fork.id))
    other = call(app, "fork", fork.id, before=last + 1, results={"receive:payment": 2, "call:pack": "another"})
    drain(app)
    assert app.result(other.id, timeout=0).value[2:] == [2, "another"]
    assert shop.ran == ["reserve", "charge"]


def test_a_fork_before_the_last_failure(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.waiting()
    with pytest.raises(NotFound, match=r"no operation of flow .* has failed: it has recorded reserve, charge"):
        call(app, "fork", job_id, before="last-failure")
    shop.fails = True
    job = shop.flow.enqueue(order=4)
    drain(app)
    shop.fails = False
    fork = call(app, "fork", job.id, before="last-failure")
    drain(app)
    assert app.get(fork.id).status == "waiting"
    assert shop.ran == ["reserve", "charge", "reserve", "charge", "charge"]


def test_a_fork_after_a_restart_has_its_arguments(app: Headway, call: Call) -> None:
    @app.flow
    async def counts(flow: Flow, n: int = 0) -> int:
        await flow.step(abs, n)
        if n < 2:
            flow.restart(n + 1)
        return n

    job = counts.enqueue()
    drain(app)
    fork = call(app, "fork", job.id, before="abs")
    assert app.get(fork.id).payload == {"n": 2}
    drain(app)
    assert app.result(fork.id, timeout=0).value == 2


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, InvalidJob, "is a flow: say before which operation the fork goes on"),
        ({"before": "tax"}, NotFound, "has no operation 'tax': it has recorded reserve, charge"),
        ({"before": 99}, NotFound, "has no row 99: its journal has the numbers 1 to"),
        ({"before": True}, InvalidJob, "is no place and no number"),
        ({"before": "charge", "at": 1}, InvalidJob, "at, step and state are of machines"),
        ({"before": "charge", "step": "a"}, InvalidJob, "at, step and state are of machines"),
        ({"before": "charge", "results": {"charge": 1}}, InvalidJob, "charge is not copied, because the fork goes on"),
        (
            {"before": "charge", "results": {"tax": 1}},
            NotFound,
            "no answer at 'tax' to replace: it has reserve, charge",
        ),
        ({"before": "charge", "results": [1]}, InvalidJob, "is not results by their places"),
    ],
)
def test_what_a_fork_cannot_be_is_refused(
    app: Headway, shop: Shop, call: Call, given: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        call(app, "fork", shop.waiting(), **given)


def test_a_flow_that_is_enqueued_by_its_name_alone_is_one(app: Headway, shop: Shop, url: str, call: Call) -> None:
    drain(app)  # a worker declares its kinds
    with closing(Headway(url, strict_kinds=False)) as elsewhere:
        job = elsewhere.enqueue("checkout", {"order": 4})
    made = app.get(job.id)
    assert (made.step, made.version, made.status) == ("$flow", 1, "queued")
    assert call(app, "journal", job.id) == []
    drain(app)
    assert shop.ran == ["reserve", "charge"]


def test_a_cancel_at_once_undoes_nothing(app: Headway, call: Call) -> None:
    did: list[str] = []

    def undo() -> None:
        did.append("undo")

    @app.flow
    async def saga(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(undo)
            await flow.receive("never")

    first, second = saga.enqueue(), saga.enqueue()
    drain(app)
    assert call(app, "cancel", first.id, at_once=True) == "canceled"
    assert call(app, "cancel", second.id) != "canceled"
    drain(app)
    assert app.get(second.id).status == "canceled"
    assert did == ["undo"]


def test_signals_of_the_engine_are_hidden(app: Headway, shop: Shop, call: Call) -> None:
    job_id = shop.waiting()
    app.signal(job_id, "payment", 1)
    drain(app)
    drain(app, "packing")
    assert [each.name for each in call(app, "signals", job_id)] == ["payment"]
    assert [each.name for each in call(app, "signals", job_id, internal=True)] == ["payment", "$child"]
    drain(app)
    assert {name for each in app.history(job_id) for name in each.signals} == {"payment"}
    assert app.step_counts() == []
