"""Windows of unique keys on PostgreSQL: by SQL, and with sessions that meet on the same keys."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10


def windowed(make, key="k", **options):
    """A job whose scope does not have the key before it runs: only the window can."""
    return make.job(unique_key=key, unique_for_ms=60_000, unique_scope=("running",), **options)


def test_sql_opens_windows(db):
    def call(options):
        asked = f"select job_id, job_status, created, replaced from headway.enqueue('k', '{{}}', {options})"
        return db.store.side.execute(asked).fetchone()

    first, *rest = call("unique_key => 'u', unique_for => '10 min'")
    assert rest == ["queued", True, False]
    db.finish(db.take())
    db.advance("9m")
    assert call("unique_key => 'u', unique_for => '1 min'") == (first, "succeeded", False, False)
    with pytest.raises(Exception, match='unique key "u" of kind k is taken by job'):
        call("unique_key => 'u', unique_for => '1 min', on_conflict => 'raise'")
    db.advance("1m")
    assert call("unique_key => 'u', unique_for => '1 min', on_conflict => 'raise'")[2]
    for options in (
        "unique_for => '1 min'",
        "unique_key => 'u', unique_for => '0 s'",
        "unique_key => 'u', unique_for => '1 min', on_conflict => 'replace'",
        "unique_key => 'u', unique_for => '1 min', debounce => '1 s'",
    ):
        with pytest.raises(Exception, match="unique_for is a duration above zero, needs a unique_key, and cannot go"):
            call(options)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_sessions_one_makes_the_job(db, make, session, until, end):
    one, two = session(), session()
    jobs = [windowed(make), windowed(make)]
    assert one.run(db.ops.enqueue(jobs[:1]))[0].created
    later = two.start(db.ops.enqueue(jobs[1:]))
    until(two.blocked)
    getattr(one, end)()
    (answer,) = later.result(SOON)
    assert (answer.id, answer.created) == ((jobs[0].id, False) if end == "commit" else (jobs[1].id, True))
    two.commit()
    assert [job.id for job in db.find()] == [answer.id]


def test_of_two_sessions_one_takes_the_window_of_a_deleted_job(db, make, session, until):
    db.enqueue_all([windowed(make)])
    db.finish(db.take())
    db.sql("delete from {jobs}")
    one, two = session(), session()
    jobs = [windowed(make), windowed(make)]
    assert one.run(db.ops.enqueue(jobs[:1]))[0].created
    later = two.start(db.ops.enqueue(jobs[1:]))
    until(two.blocked)
    one.commit()
    assert later.result(SOON)[0].id == jobs[0].id


def test_sessions_with_the_same_keys_wait_in_their_order(db, make, session, until):
    one, two = session(), session()
    one.run(db.ops.enqueue([windowed(make, key) for key in "ca"]))
    later = two.start(db.ops.enqueue([windowed(make, key) for key in "cba"]))
    until(two.blocked)
    one.run(db.ops.enqueue([windowed(make, "b")]))  # two waits for a: it has not got b yet
    one.commit()
    assert [answer.created for answer in later.result(SOON)] == [False, False, False]
    two.commit()


def test_an_open_window_is_read_without_waiting_for_who_else_met_it(db, make, session):
    first = db.enqueue_all([windowed(make)])[0]
    one, two = session(), session()
    for each in (one, two):
        assert each.run(db.ops.enqueue([windowed(make)]))[0].id == first.id
    one.commit()
    two.commit()
