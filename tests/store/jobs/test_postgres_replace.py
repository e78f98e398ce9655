"""Replace on PostgreSQL: by SQL, and with sessions that meet on the same rows."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10


def test_sql_replaces_debounces_and_follows(db):
    def call(options):
        asked = f"select job_id, job_status, created, replaced from headway.enqueue('k', {options})"
        return db.store.side.execute(asked).fetchone()

    first, *rest = call("'{\"n\": 1}', unique_key => 'u'")
    assert rest == ["queued", True, False]
    answer = call("'{\"n\": 2}', unique_key => 'u', on_conflict => 'replace', replace => '{payload}', priority => 5")
    assert answer == (first, "queued", False, True)
    assert (db.job(str(first)).payload, db.job(str(first)).priority) == ({"n": 2}, 100)
    answer = call("'{\"n\": 3}', unique_key => 'u', debounce => '5 s', debounce_max => '8 s'")
    assert answer == (first, "scheduled", False, True)
    db.advance("4s")
    call("'{\"n\": 3}', unique_key => 'u', debounce => '5 s', debounce_max => '8 s'")
    assert db.job(str(first)).scheduled_for == db.after(4_000)
    call("'{\"n\": 3}', unique_key => 'u', on_conflict => 'replace'")
    assert str(first) == db.take().id
    successor, *rest = call("'{\"n\": 4}', unique_key => 'u', on_conflict => 'replace_or_follow'")
    assert rest == ["held", True, False]
    assert call("unique_key => 'u', debounce => '5 s', on_conflict => 'replace_or_follow'")[0] == successor
    with pytest.raises(Exception, match="replace names what cannot be replaced: give some of payload, scheduled_for"):
        call("unique_key => 'u', on_conflict => 'replace', replace => '{kind}'")


def test_a_replace_waits_for_a_claim_and_then_leaves_the_job_alone(db, make, session, until):
    waiting = db.enqueue(unique_key="k", payload='{"n":1}')
    worker = db.worker()
    claims, two = session(), session()
    (claim,) = claims.run(db.ops.claim(worker, "default", 1))
    later = two.start(db.ops.enqueue([make.job(unique_key="k", on_conflict="replace", payload='{"n":2}')]))
    until(two.blocked)
    claims.commit()
    (answer,) = later.result(SOON)
    assert (answer.id, answer.status, answer.created, answer.replaced) == (waiting.id, "running", False, False)
    # the enqueue's transaction is still open, and has no lock on what runs
    db.settle(claim, "succeeded", worker=worker)
    assert db.status(waiting.id) == "succeeded"


def test_a_claim_passes_over_what_an_open_transaction_replaces(db, make, session):
    waiting = db.enqueue(unique_key="k", payload='{"n":1}')
    other = db.enqueue()
    open_ = session()
    open_.run(db.ops.enqueue([make.job(unique_key="k", on_conflict="replace", payload='{"n":2}')]))
    assert [claim.id for claim in db.claim()] == [other.id]
    open_.commit()
    assert [(claim.id, claim.payload) for claim in db.claim()] == [(waiting.id, '{"n":2}')]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_replace_waits_for_another_and_the_last_to_commit_wins(db, make, session, until, end):
    first = db.enqueue(unique_key="k", payload='{"n":1}')
    one, two = session(), session()
    one.run(db.ops.enqueue([make.job(unique_key="k", on_conflict="replace", payload='{"n":2}')]))
    later = two.start(db.ops.enqueue([make.job(unique_key="k", on_conflict="replace", payload='{"n":3}')]))
    until(two.blocked)
    getattr(one, end)()
    assert later.result(SOON)[0].replaced
    two.commit()
    assert db.job(first.id).payload == {"n": 3}
