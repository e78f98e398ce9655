"""With unique_for, the first job has its unique key for that long, whatever becomes of it."""

from __future__ import annotations

import threading

import pytest

from headway.clock import to_micros
from headway.errors import Duplicate
from tests.tenant_ids import tenant_id

MINUTE = 60_000


def windowed(db, **options):
    return db.enqueue(**{"unique_key": "k", "unique_for_ms": 10 * MINUTE, **options})


def shown(answer):
    return (answer.id, answer.status, answer.created)


def windows(db):
    """Who has which key now, in order of the keys."""
    now = "headway.now()" if db.dialect == "postgres" else to_micros(db.now())
    rows = db.sql(f"select scope, key, job_id from {{unique_windows}} where until > {now} order by scope, key")
    return [(scope, key, str(job_id)) for scope, key, job_id in rows]


@pytest.mark.parametrize("end", ["succeeded", "dead", "canceled"])
def test_the_first_job_has_the_key_until_the_window_ends_also_when_it_is_over(db, end):
    first = windowed(db)
    if end == "canceled":
        db.cancel(first.id)
    else:
        db.settle(db.take(), end, charge=1)
    db.advance("9m")
    assert shown(windowed(db)) == (first.id, end, False)
    with pytest.raises(Duplicate, match=rf'"k" of kind mail is taken by job {first.id} \({end}\)') as caught:
        windowed(db, on_conflict="raise")
    assert caught.value.job_id == first.id
    db.advance("1m")
    second = windowed(db)
    assert second.created
    db.finish(db.take())
    db.advance("9m")  # a window begins with the job that opens it, and no answer makes it longer
    assert shown(windowed(db)) == (second.id, "succeeded", False)
    db.advance("1m")
    assert windowed(db).created
    assert len(windows(db)) == 1


def test_beyond_the_window_an_unfinished_job_still_has_its_key(db):
    first = windowed(db)
    db.advance("11m")
    assert shown(windowed(db)) == (first.id, "queued", False)
    assert windows(db) == []  # the second would have opened one, but was not made
    db.finish(db.take())
    assert windowed(db).created


def test_only_an_enqueue_with_unique_for_looks_at_windows(db):
    first = windowed(db)
    db.finish(db.take())
    plain = db.enqueue(unique_key="k")
    assert plain.created
    assert windowed(db).id == first.id
    db.advance("10m")
    assert shown(windowed(db)) == (plain.id, "queued", False)


def test_a_window_is_of_a_tenant_a_key_and_a_kind_or_group(db):
    first = windowed(db, kind="a", unique_group="g")
    others = [{"kind": "a"}, {"kind": "b"}, {"unique_key": "l", "unique_group": "g"}, {"unique_group": "h"}]
    others.append({"unique_group": "g", "tenant": "acme", "tenant_id": tenant_id("acme")})
    assert all(windowed(db, **other).created for other in others)
    assert windowed(db, kind="b", unique_group="g").id == first.id


def test_a_window_holds_where_the_scope_does_not(db):
    first = windowed(db, unique_scope=("running",))
    assert shown(windowed(db, unique_scope=("running",))) == (first.id, "queued", False)


def test_in_a_batch_the_first_of_a_key_opens_the_window(db, make):
    def job(key, **options):
        return make.job(**{"unique_key": key, "unique_for_ms": MINUTE, "unique_scope": ("running",), **options})

    jobs = [job("b"), make.job(), job("a"), job("b"), job("b", unique_for_ms=None), job("a", delay_ms=5)]
    answers = db.enqueue_all(jobs)
    wanted = [jobs[0].id, jobs[1].id, jobs[2].id, jobs[0].id, jobs[4].id, jobs[2].id]
    assert [answer.id for answer in answers] == wanted
    assert [answer.created for answer in answers] == [True, True, True, False, True, False]
    assert [(key, job_id) for _, key, job_id in windows(db)] == [("a", jobs[2].id), ("b", jobs[0].id)]
    again = db.enqueue_all(jobs)
    assert [shown(answer)[::2] for answer in again] == [(job_id, False) for job_id in wanted]
    with pytest.raises(Duplicate):
        db.enqueue_all([job("c"), job("c", on_conflict="raise")])
    assert len(windows(db)) == 2
    assert len(db.find()) == 4


def test_a_batch_behind_a_job_without_window_meets_that_and_opens_none(db, make):
    holder = db.enqueue(unique_key="k")
    jobs = [make.job(unique_key="k", unique_for_ms=MINUTE) for _ in range(2)]
    assert [shown(answer) for answer in db.enqueue_all(jobs)] == [(holder.id, "queued", False)] * 2
    assert windows(db) == []
    with pytest.raises(Duplicate) as caught:
        db.enqueue_all([jobs[0], make.job(unique_key="k", unique_for_ms=MINUTE, on_conflict="raise")])
    assert caught.value.job_id == holder.id


def test_a_repeated_enqueue_keeps_its_job_and_its_window(db, make):
    job = make.job(unique_key="k", unique_for_ms=MINUTE, idempotency_key="i")
    db.enqueue_all([job])
    db.advance("59s")
    assert shown(db.enqueue_all([job])[0]) == (job.id, "queued", False)
    same = windowed(db, unique_key="other", idempotency_key="i", kind=job.kind)
    assert shown(same) == (job.id, "queued", False)
    assert [each[1:] for each in windows(db)] == [("k", job.id)]
    db.finish(db.take())
    db.advance("1s")
    assert shown(db.enqueue_all([job])[0]) == (job.id, "succeeded", False)
    assert windowed(db, kind=job.kind).created
    assert not db.enqueue_all([job])[0].created


def test_a_job_that_repeats_an_earlier_one_of_its_batch_opens_no_window(db, make):
    first, repeat, other = (
        make.job(idempotency_key="i"),
        make.job(idempotency_key="i", unique_key="k", unique_for_ms=MINUTE),
        make.job(unique_key="k", unique_for_ms=MINUTE),
    )
    wanted = [(first.id, True), (first.id, False), (other.id, True)]
    assert [(answer.id, answer.created) for answer in db.enqueue_all([first, repeat, other])] == wanted
    assert [each[1:] for each in windows(db)] == [("k", other.id)]
    again = db.enqueue_all([first, repeat, other])
    assert [(answer.id, answer.created) for answer in again] == [(job_id, False) for job_id, _ in wanted]


def test_a_deleted_job_has_no_window(db):
    first = windowed(db)
    db.finish(db.take())
    db.run(db.ops.delete([first.id], tenant_id=None, reason=None, actor=None))
    second = windowed(db)
    assert second.created
    assert [each[2] for each in windows(db)] == [second.id]
    assert windowed(db).id == second.id


def test_a_refused_batch_opens_no_window(db, make):
    db.enqueue(unique_key="taken")
    refused = make.job(unique_key="taken", on_conflict="raise")
    with pytest.raises(Duplicate):
        db.enqueue_all([make.job(unique_key="k", unique_for_ms=MINUTE), refused])
    assert windows(db) == []
    assert windowed(db).created


def test_trains_joins_and_replacing_neighbours_go_on_around_a_met_window(db, make):
    first = windowed(db, kind="k", train="t")
    db.finish(db.take())
    met = make.job(kind="k", unique_key="k", unique_for_ms=MINUTE, train="t")
    behind = make.job(train="t")
    after = make.job(after=(met.id,))
    replacing = make.job(unique_key="r", on_conflict="replace")
    again = make.job(unique_key="r", on_conflict="replace", priority=7, kind=replacing.kind)
    answers = db.enqueue_all([met, behind, after, replacing, again])
    assert [(answer.id, answer.created, answer.replaced) for answer in answers] == [
        (first.id, False, False),
        (behind.id, True, False),
        (after.id, True, False),
        (replacing.id, True, False),
        (replacing.id, False, True),
    ]
    assert [claim.id for claim in db.claim()] == [replacing.id, behind.id, after.id]


def test_windows_that_are_over_are_pruned_in_batches(db):
    kept = windowed(db, unique_key="kept", unique_for_ms=60 * MINUTE)
    for n in range(5):
        windowed(db, unique_key=f"k{n}", unique_for_ms=(5 - n) * MINUTE)
    assert db.run(db.ops.prune_windows(limit=10)) == 0
    db.advance("4m")
    assert db.run(db.ops.prune_windows(limit=3)) == 3
    assert db.sql("select key from {unique_windows} order by key") == [("k0",), ("k1",), ("kept",)]
    db.advance("1m")
    assert [db.run(db.ops.prune_windows(limit=3)) for _ in range(2)] == [2, 0]
    assert [str(job_id) for (job_id,) in db.sql("select job_id from {unique_windows}")] == [kept.id]


def test_at_the_same_time_one_job_is_made(db, make):
    """From several threads, each with batches over the same keys in another order."""
    made, errors, gate = [], [], threading.Barrier(4)

    def enqueue(turn):
        try:
            gate.wait()
            for n in range(8):
                keys = [f"{n}{key}" for key in "abc"]
                jobs = [
                    make.job(unique_key=key, unique_for_ms=MINUTE, unique_scope=("running",))
                    for key in keys[turn % 3 :] + keys[: turn % 3]
                ]
                made.extend(answer.id for answer in db.enqueue_all(jobs) if answer.created)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=enqueue, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(made) == 24
    assert sorted(made) == sorted(each[2] for each in windows(db))
