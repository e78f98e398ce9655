"""The contract of a settle with a turn: for each outcome, every column of the job and of its attempt."""

from __future__ import annotations

import msgspec
import pytest

from headway.model.ids import new_id
from headway.model.job import Report
from headway.model.machine import Settled
from tests.store.machines.machine_calls import QUIET, changed, checkpoint, ids_of, inbox, on, received

HOUR_MS = 3_600_000
HERE = ("paid", "refunded")


@pytest.fixture
def me(db):
    return db.worker(hostname="host-2", lease_ms=10**10)


@pytest.fixture
def claim(db, me):
    """The third execution of a machine in the middle of its way: one try failed and one was lost."""
    job_id = db.machine(
        payload='{"order": 42}',
        queue="shop",
        partition="part-1",
        version=3,
        step="pay",
        state={"n": 1},
        awaiting=HERE,
        match="all",
        joining=2,
        woken="timeout",
        home_queue="home-1",
        home_partition="home-2",
    )
    for name in ("paid", "other"):
        db.signal(job_id, name)
    db.settle(db.take(queue="shop"), "scheduled", charge=1, error="boom")
    gone = db.worker()
    db.take(gone, "shop")
    db.reap(gone)
    db.advance("1h")
    db.promote()
    claim = db.take(me, "shop")
    db.report(me, Report(claim.id, claim.fence, 0.5, "half", "tail-3"))
    db.signal(job_id, "late")
    db.advance("7s")
    return claim


LEFT = {"worker_id": None, "attempt_started_at": None, "error": None}
FRESH = {"tries": 0, "losses": 0, "awaiting": (), "match": "any", "joining": None, "woken": None}


def attempt_of(db, claim):
    """The attempt of this claim, without what is the same for all of them."""
    (attempt,) = (each for each in db.attempts(claim.id) if each.fence == claim.fence)
    values = msgspec.structs.asdict(attempt)
    assert values.pop("job_id") == claim.id
    assert values.pop("fence") == claim.fence == 3
    assert (values.pop("finished_at") - values.pop("started_at")).total_seconds() == 7
    assert values.pop("stdout_tail") == "tail-3"
    assert values.pop("artifacts") == ()
    return values


def written(me, **values):
    base = {"worker_id": me, "step": "pay", "version": 3, "woken": "timeout", "exit_code": None, "stderr_tail": None}
    base["pid"] = None
    return {**base, "error": None, "note": None, "state": None, "status": "succeeded", **values}


def test_a_claim_brings_the_place_with_everything_unconsumed(db, claim):
    at = checkpoint(claim)
    assert (at.version, at.step, msgspec.json.decode(at.state)) == (3, "pay", {"n": 1})
    assert (at.awaiting, at.match, at.joining, at.woken) == (HERE, "all", 2, "timeout")
    assert (at.partition, at.home_queue, at.home_partition) == ("part-1", "home-1", "home-2")
    assert (at.forked_from, at.parent_id) == (None, None)
    assert [(each.name, each.payload, each.dedup_key) for each in at.signals] == [
        ("paid", None, None),
        ("other", None, None),
    ]
    assert (claim.tries, claim.losses, claim.fence) == (1, 1, 3)


def test_next_commits_the_state_and_is_queued_at_the_end(db, claim, me):
    behind = db.machine(queue="shop", priority=100)
    before = db.job(claim.id)
    answer = db.turn(claim, "next", worker=me, step="ship", version=4, state={"n": 2}, note="on to ship")
    assert answer == QUIET
    after = db.job(claim.id)
    assert after.position > db.job(behind).position
    assert changed(before, after) == {
        **LEFT,
        **FRESH,
        "status": "queued",
        "position": after.position,
        "queued_at": db.now(),
        "step": "ship",
        "version": 4,
        "state": {"n": 2},
    }
    assert attempt_of(db, claim) == written(me, version=4, outcome="next", note="on to ship", state={"n": 2})
    assert db.take(queue="shop").id == behind


def test_next_may_go_on_in_the_same_slot(db, claim, me):
    before = db.job(claim.id)
    answer = db.turn(claim, "next", "running", me, step="ship", state={"n": 2}, consumed=ids_of(claim, "paid"))
    assert (answer.lost, list(answer.continued)) == ([], [claim.id])
    assert received(answer.continued[claim.id]) == ["other", "late"]
    assert changed(before, db.job(claim.id)) == {
        **FRESH,
        "fence": 4,
        "error": None,
        "queued_at": db.now(),
        "attempt_started_at": db.now(),
        "progress": None,
        "progress_note": None,
        "log_tail": None,
        "log_end": None,
        "step": "ship",
        "state": {"n": 2},
    }
    assert attempt_of(db, claim) == written(me, outcome="next", state={"n": 2})
    assert db.inboxes(claim.id) == [("paid", "consumed", 3), ("other", "pending", None), ("late", "pending", None)]
    opened = db.attempts(claim.id)[-1]
    assert (opened.fence, opened.status, opened.started_at, opened.step) == (4, "running", db.now(), "ship")
    assert db.running(me) == [(claim.id, 4)]
    assert db.turn(on(claim), "done", worker=me) == QUIET


def test_one_that_goes_on_without_signals_brings_none(db):
    claim = db.begin()
    assert db.turn(claim, "next", "running", step="b") == Settled([], {claim.id: None})


@pytest.mark.parametrize(("delay_ms", "status"), [(0, "queued"), (5_000, "scheduled")])
def test_replay_commits_the_state_and_keeps_what_woke_the_step(db, claim, me, delay_ms, status):
    before = db.job(claim.id)
    values = {"state": {"n": 2}, "progress": False, "charge": 1, "delay_ms": delay_ms, "error": "handled"}
    assert db.turn(claim, "replay", worker=me, status="failed", **values) == QUIET
    times = {"scheduled_for": db.after(delay_ms)} if delay_ms else {"queued_at": db.now()}
    expected = {**LEFT, **times, "status": status, "state": {"n": 2}, "tries": 2, "error": "handled"}
    assert changed(before, db.job(claim.id)) == expected
    assert attempt_of(db, claim) == written(me, outcome="replay", state={"n": 2}, status="failed", error="handled")
    assert db.inboxes(claim.id) == [(name, "pending", None) for name in ("paid", "other", "late")]


def test_await_parks_until_its_signals_are_there(db, claim, me):
    before = db.job(claim.id)
    names = ("shipped", "lost \u2603", "a,b")
    values = {"awaiting": names, "deadline_ms": 90_000, "consumed": ids_of(claim, "paid")}
    assert db.turn(claim, "await", worker=me, step="ship", state={"n": 2}, note="for shipped", **values) == QUIET
    assert changed(before, db.job(claim.id)) == {
        **LEFT,
        **FRESH,
        "status": "waiting",
        "awaiting": names,
        "deadline_at": db.after(90_000),
        "step": "ship",
        "state": {"n": 2},
    }
    assert attempt_of(db, claim) == written(me, outcome="await", state={"n": 2}, note="for shipped")
    assert db.inboxes(claim.id) == [("paid", "consumed", 3), ("other", "pending", None), ("late", "pending", None)]
    (first, *_) = db.signals(claim.id)
    assert first.consumed_at == db.now()
    assert db.claim(queue="shop") == []


def test_an_await_of_what_is_there_is_queued_at_once(db, claim, me):
    """The signal came while the step ran."""
    before = db.job(claim.id)
    assert db.turn(claim, "await", worker=me, awaiting=("late",), deadline_ms=1_000, step="ship") == QUIET
    job = db.job(claim.id)
    assert (job.status, job.woken, job.awaiting, job.match) == ("queued", "signal", ("late",), "any")
    assert (job.position, job.queued_at) == (before.position, db.now())
    again = db.take(me, "shop")
    assert (inbox(again), checkpoint(again).woken) == (["paid", "other", "late"], "signal")
    db.turn(again, "done", worker=me, consumed=ids_of(again, "late"))
    assert db.inboxes(claim.id)[2] == ("late", "consumed", 4)


def test_what_the_turn_consumes_does_not_satisfy_its_own_await(db, claim, me):
    assert db.turn(claim, "await", worker=me, awaiting=("paid",), consumed=ids_of(claim, "paid")) == QUIET
    assert db.woken(claim.id) == ("waiting", None)


def test_spawn_parks_with_its_children_enqueued(db, claim, me, make):
    before = db.job(claim.id)
    child = make.job(queue="small", payload='{"n": 7}', priority=3)
    assert db.turn(claim, "spawn", worker=me, step="ship", state={"n": 2}, children=(child,), note="1 child") == QUIET
    assert changed(before, db.job(claim.id)) == {
        **LEFT,
        **FRESH,
        "status": "waiting",
        "joining": 3,
        "pending": True,
        "step": "ship",
        "state": {"n": 2},
    }
    assert attempt_of(db, claim) == written(me, outcome="spawn", state={"n": 2}, note="1 child")
    born = db.job(child.id)
    assert (born.status, born.queue, born.payload, born.priority) == ("queued", "small", {"n": 7}, 3)
    assert (born.parent_id, born.created_at) == (claim.id, db.now())


def test_sleep_is_scheduled_and_costs_nothing(db, claim, me):
    before = db.job(claim.id)
    answer = db.turn(claim, "sleep", worker=me, step="ship", state={"n": 2}, delay_ms=30 * 24 * HOUR_MS, note="30d")
    assert answer == QUIET
    assert changed(before, db.job(claim.id)) == {
        **LEFT,
        **FRESH,
        "status": "scheduled",
        "scheduled_for": db.after(30 * 24 * HOUR_MS),
        "step": "ship",
        "state": {"n": 2},
    }
    assert attempt_of(db, claim) == written(me, outcome="sleep", state={"n": 2}, note="30d")
    db.advance(30 * 24 * 3600)
    db.promote()
    assert checkpoint(db.take(queue="shop")).step == "ship"


def test_done_is_the_end_with_a_result_and_the_state_as_it_was(db, claim, me):
    before = db.job(claim.id)
    values = {"result": '{"shipped": 42}', "consumed": ids_of(claim, "paid", "other")}
    assert db.turn(claim, "done", worker=me, **values) == QUIET
    after = db.job(claim.id)
    assert changed(before, after) == {
        **LEFT,
        **FRESH,
        "status": "succeeded",
        "finished_at": db.now(),
        "result": {"shipped": 42},
    }
    assert after.state == {"n": 1}
    assert attempt_of(db, claim) == written(me, outcome="done")
    assert db.inboxes(claim.id) == [("paid", "consumed", 3), ("other", "consumed", 3), ("late", "undelivered", None)]


def test_stop_is_dead_for_a_reason(db, claim, me):
    before = db.job(claim.id)
    assert db.turn(claim, "stop", worker=me, error="never paid") == QUIET
    assert changed(before, db.job(claim.id)) == {
        **LEFT,
        **FRESH,
        "status": "dead",
        "finished_at": db.now(),
        "error": "never paid",
    }
    assert attempt_of(db, claim) == written(me, outcome="stop", status="failed", error="never paid")


@pytest.mark.parametrize("to", ["failed", "canceled"])
@pytest.mark.parametrize("error", [None, "its own"])
def test_one_that_was_asked_to_cancel_says_why_unless_it_has_an_error(db, to, error):
    claim = db.begin()
    db.cancel(claim.id, reason="no more")
    assert db.turn(claim, "stop", to, error=error, progress=False) == QUIET
    assert (db.job(claim.id).status, db.job(claim.id).error) == (to, error or "no more")


def test_a_retry_keeps_the_place_and_consumes_nothing(db, claim, me):
    before = db.job(claim.id)
    assert db.settle(claim, "scheduled", me, charge=1, delay_ms=5_000, error="boom again") == []
    expected = {**LEFT, "status": "scheduled", "scheduled_for": db.after(5_000), "tries": 2, "error": "boom again"}
    assert changed(before, db.job(claim.id)) == expected
    assert attempt_of(db, claim) == written(me, status="failed", outcome=None, error="boom again")
    assert db.inboxes(claim.id) == [(name, "pending", None) for name in ("paid", "other", "late")]


def test_a_lost_execution_keeps_the_place_and_consumes_nothing(db, claim, me):
    before = db.job(claim.id)
    db.reap(me)
    after = db.job(claim.id)
    assert changed(before, after) == {
        **LEFT,
        "status": "scheduled",
        "scheduled_for": after.scheduled_for,
        "losses": 2,
        "error": after.error,
    }
    values = attempt_of(db, claim)
    assert values == written(me, status="lost", outcome=None, error=values["error"])
    assert {status for _, status, _ in db.inboxes(claim.id)} == {"pending"}


def test_the_open_attempt_says_where_it_is(db, claim, me):
    opened = db.attempts(claim.id)[-1]
    assert (opened.status, opened.step, opened.version, opened.woken) == ("running", "pay", 3, "timeout")
    assert (opened.state, opened.outcome, opened.note) == (None, None, None)


# the fence


@pytest.mark.parametrize("outcome", ["next", "replay", "await", "spawn", "sleep", "done", "stop", "on"])
def test_an_old_fence_writes_no_state_consumes_no_signal_and_makes_no_child(db, make, outcome):
    old = db.begin(state={"n": 1})
    db.signal(old.id, "paid")
    db.release(old)
    new = db.take()
    before = (db.job(old.id), db.attempts(old.id), db.signals(old.id), len(db.find()))
    to = "running" if outcome == "on" else None
    values = {"children": (make.job(),)} if outcome == "spawn" else {}
    values |= {"awaiting": ("paid",)} if outcome == "await" else {}
    outcome = "next" if outcome == "on" else outcome
    answer = db.turn(old, outcome, to, step="late", state={"n": 9}, consumed=ids_of(new, "paid"), **values)
    assert answer == Settled([(old.id, old.fence)], {})
    assert (db.job(old.id), db.attempts(old.id), db.signals(old.id), len(db.find())) == before


@pytest.mark.parametrize("outcome", ["next", "replay", "await", "spawn", "sleep", "done", "stop"])
def test_a_repeated_settle_is_a_no_op(db, make, outcome):
    claim = db.begin(state={"n": 1})
    db.signal(claim.id, "paid")
    ids = tuple(each.id for each in db.signals(claim.id))
    children = (make.job(queue="children"),) if outcome == "spawn" else ()
    values = {"step": "two", "state": {"n": 2}, "consumed": ids, "children": children, "delay_ms": 60_000}
    values |= {"awaiting": ("paid",) if outcome == "await" else (), "progress": outcome != "replay"}
    assert db.turn(claim, outcome, **values) == QUIET
    before = (db.job(claim.id), db.attempts(claim.id), db.signals(claim.id), len(db.find()))
    db.advance("1m")
    assert db.turn(claim, outcome, **values) == QUIET
    assert (db.job(claim.id), db.attempts(claim.id), db.signals(claim.id), len(db.find())) == before


def test_a_repeated_settle_says_again_that_it_goes_on(db, me):
    claim = db.begin(me)
    first = db.turn(claim, "next", "running", me, step="two")
    db.signal(claim.id, "paid")
    before = (db.job(claim.id), db.attempts(claim.id))
    again = db.turn(claim, "next", "running", me, step="two")
    assert (first.lost, list(first.continued)) == (again.lost, list(again.continued)) == ([], [claim.id])
    assert (db.job(claim.id), db.attempts(claim.id)) == before
    assert db.turn(on(claim), "done", worker=me) == QUIET
    # once that execution is over too, nothing goes on
    assert db.turn(claim, "next", "running", me, step="two") == QUIET


def test_another_worker_does_not_go_on_with_it(db, me):
    claim = db.begin(me)
    db.turn(claim, "next", "running", me, step="two")
    other = db.worker()
    assert db.turn(claim, "next", "running", other, step="two") == Settled([(claim.id, 1)], {})


def test_one_that_was_taken_away_meanwhile_does_not_go_on(db, me):
    claim = db.begin(me)
    db.turn(claim, "next", "running", me, step="two")
    db.release(on(claim))
    other = db.worker()
    assert db.take(other).fence == 3
    assert db.turn(claim, "next", "running", me, step="two") == QUIET


def test_a_batch_is_written_row_by_row(db, make):
    ids = [db.machine(state={"n": n}) for n in range(8)]
    for job_id in ids:
        db.signal(job_id, "go", job_id)
    claims = db.claim()
    outcomes = ["next", "on", "await", "spawn", "sleep", "done", "stop", "lost"]
    settlements = []
    for n, (claim, outcome) in enumerate(zip(claims, outcomes, strict=True)):
        values = {"state": {"n": 10 + n}, "step": f"s{n}", "note": f"note {n}", "consumed": ids_of(claim, "go")}
        values |= {"children": (make.job(queue="c"),)} if outcome == "spawn" else {}
        values |= {"awaiting": (f"a{n}",)} if outcome == "await" else {}
        values |= {"delay_ms": 1_000} if outcome == "sleep" else {}
        if outcome == "lost":
            claim = on(claim)
        name = "next" if outcome in ("on", "lost") else outcome
        settlements.append(make.turned(claim, name, "running" if outcome == "on" else None, **values))
    answer = db.turn_all(settlements)
    assert answer == Settled([(ids[7], 2)], {ids[1]: None})
    jobs = [db.job(job_id) for job_id in ids]
    assert [job.status for job in jobs] == [
        *("queued", "running", "waiting", "waiting", "scheduled", "succeeded", "dead", "running")
    ]
    for n, job in enumerate(jobs[:7]):
        (attempt, *_) = db.attempts(job.id)
        assert (job.step, job.state, attempt.note, attempt.state) == (
            *(f"s{n}", {"n": 10 + n}),
            *(f"note {n}", {"n": 10 + n}),
        )
        assert [fence for _, _, fence in db.inboxes(job.id)] == [1]
    assert (jobs[7].state, db.inboxes(ids[7])) == ({"n": 7}, [("go", "pending", None)])


def test_a_settle_and_the_claim_with_it_answer_as_both_do(db, make):
    claim = db.begin()
    waits = db.machine(step="x", state={"k": 1})
    db.signal(waits, "hello", {"a": 1})
    stale = on(on(claim))
    settlements = [make.turned(claim, "next", "running", step="two"), make.turned(stale, "done")]
    answer = db.run(db.ops.settle_and_claim(db.home(), settlements, "default", 5))
    settled, claims = answer.settled, answer.claims
    assert settled == Settled([(claim.id, 3)], {claim.id: None})
    assert [each.id for each in claims] == [waits]
    assert (checkpoint(claims[0]).step, inbox(claims[0])) == ("x", ["hello"])


# states and steps as they are written


@pytest.mark.parametrize("state", [{}, [], 0, "text", None, False, {"s": "Grüße 🚂 \" ' \\ \x7f"}, {"n": 2**53 + 1}])
def test_a_state_is_any_json(db, state):
    claim = db.begin()
    text = msgspec.json.encode(state).decode()
    db.turn(claim, "next", step="two", state=text)
    again = db.take()
    assert msgspec.json.decode(checkpoint(again).state) == state
    assert db.attempts(claim.id)[0].state == state


def test_the_text_of_a_state_comes_back_as_it_went_in(db):
    """Numbers that a float does not hold, and the order of keys, are not the store's to change."""
    claim = db.begin()
    text = '{"b": 1.10, "a": 12345678901234567890.000001, "b2": "\\u00e9"}'
    db.turn(claim, "next", step="two", state=text)
    assert bytes(checkpoint(db.take()).state).decode() == text


def test_a_machine_known_by_name_alone_has_no_place_until_its_first_outcome(db):
    claim = db.start(kind="checkout")
    assert claim.checkpoint is None
    db.turn(claim, "await", awaiting=("paid",), version=7, step="two")
    job = db.job(claim.id)
    assert (job.status, job.version, job.step, job.state) == ("waiting", 7, "two", None)
    (attempt,) = db.attempts(claim.id)
    assert (attempt.step, attempt.version, attempt.outcome) == ("start", 7, "await")


def test_a_plain_job_with_a_signal_brings_it_along(db):
    job_id = db.enqueue().id
    db.signal(job_id, "early", [1])
    claim = db.take()
    assert (inbox(claim), checkpoint(claim).step) == (["early"], None)


def test_consumed_signals_of_another_job_are_not_touched(db):
    other = db.machine(queue="elsewhere")
    sent = db.signal(other, "paid")
    claim = db.begin()
    db.turn(claim, "done", consumed=(sent.id, new_id()))
    assert db.inboxes(other) == [("paid", "pending", None)]


def test_a_signal_is_consumed_once(db):
    claim = db.begin()
    sent = db.signal(claim.id, "paid")
    second = db.go_on(claim, consumed=(sent.id,))
    db.turn(second, "done", consumed=(sent.id,))
    assert db.inboxes(claim.id) == [("paid", "consumed", 1)]
