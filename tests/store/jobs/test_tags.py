"""Tags: stored with the job, copied with it, found by an index, gone with it."""

from __future__ import annotations

import pytest

from headway.errors import InvalidJob
from headway.model.tags import merged, tags
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def indexed(db):
    """What the index of tags holds."""
    return {(tag, str(job_id)) for tag, job_id in db.sql("select tag, job_id from {job_tags}")}


def test_tags_are_kept_by_every_way_to_enqueue(db, make):
    alone = db.enqueue(tags=("eu", "vip")).id
    later = db.enqueue(tags=("vip",), delay_ms=1_000).id
    car = db.enqueue(tags=("train",), train="t", unique_key="u").id
    batch = [make.job(tags=("a", "b")), make.job(), make.job(tags=("b",), idempotency_key="i")]
    db.enqueue_all(batch)
    assert [db.job(job_id).tags for job_id in (alone, later, car)] == [("eu", "vip"), ("vip",), ("train",)]
    assert [db.job(job.id).tags for job in batch] == [("a", "b"), (), ("b",)]
    assert indexed(db) == {
        *(("eu", alone), ("vip", alone), ("vip", later), ("train", car)),
        *(("a", batch[0].id), ("b", batch[0].id), ("b", batch[2].id)),
    }


def test_a_job_that_is_replaced_is_found_by_its_new_tags_alone(db, make):
    first = db.enqueue(unique_key="u", tags=("a", "b")).id
    other = db.enqueue(tags=("a",)).id

    def replace(**options):
        return make.job(**{"unique_key": "u", "on_conflict": "replace", **options})

    assert db.enqueue_all([replace(tags=("b", "c"))])[0].replaced
    assert (db.job(first).tags, indexed(db)) == (("b", "c"), {("b", first), ("c", first), ("a", other)})
    db.enqueue_all([replace(tags=("d",)), replace(tags=("e",), replace=("priority",), priority=3)])
    assert (db.job(first).tags, db.job(first).priority) == (("d",), 3)
    assert indexed(db) == {("d", first), ("a", other)}
    db.enqueue_all([replace()])
    assert (db.job(first).tags, indexed(db)) == ((), {("a", other)})


def test_a_job_that_met_another_leaves_that_ones_tags_alone(db, make):
    first = db.enqueue(unique_key="u", tags=("old",)).id
    answers = db.enqueue_all([make.job(unique_key="u", tags=("new",)), make.job(tags=("new",))])
    assert [answer.created for answer in answers] == [False, True]
    assert not db.enqueue(unique_key="u", tags=("new",)).created
    assert db.job(first).tags == ("old",)
    assert indexed(db) == {("old", first), ("new", answers[1].id)}


def test_the_job_that_retries_another_has_its_tags(db):
    failed = db.start(delivery="at_most_once", tags=("vip",))
    db.settle(failed, "failed", delay_ms=5_000)
    (heir,) = db.find(retry_of=failed.id)
    done = db.start(delivery="at_most_once", tags=("eu",), queue="other", unique_key="u")
    db.settle(done, "dead")
    again = db.retry(done.id)[done.id]
    assert (db.job(heir.id).tags, db.job(again).tags) == (("vip",), ("eu",))
    assert [job.id for job in db.find(tags=("vip",))] == [heir.id, failed.id]
    assert [job.id for job in db.find(tags=("eu",))] == [again, done.id]


def test_pruned_jobs_take_their_tags_with_them(db):
    old = db.start(tags=("a", "b"))
    db.settle(old, "succeeded")
    db.settle(db.start(), "succeeded")
    kept = db.enqueue(tags=("a",)).id
    db.advance("1h")
    assert db.run(db.ops.prune("succeeded", older_than_ms=1_000, limit=10)) == 2
    assert indexed(db) == {("a", kept)}


def test_all_of_these_tags_or_any_of_them(db, make):
    jobs = [make.job(tags=each) for each in (("a",), ("a", "b"), ("b", "c"), ("c",), ())]
    db.enqueue_all(jobs)
    one, two, three, four, _ = (job.id for job in jobs)

    def found(**where):
        return [job.id for job in db.find(**where)]

    assert found(tags=("a",)) == [two, one]
    assert found(tags=("b", "a")) == [two]
    assert found(tags=("a", "c")) == []
    assert found(any_tags=("a", "b")) == [three, two, one]
    assert found(any_tags=("a", "z")) == [two, one]
    assert found(tags=("b",), any_tags=("c", "z")) == [three]
    assert found(any_tags=("a", "b", "c"), limit=2) == [four, three]
    assert found(any_tags=("a", "b", "c"), order="oldest") == [one, two, three, four]


def test_tags_with_other_filters(db):
    wanted = db.enqueue(kind="mail", queue="q", tags=("vip",), correlation_id="c").id
    db.enqueue(kind="mail", queue="q", correlation_id="c")
    db.enqueue(kind="sms", queue="q", tags=("vip",), correlation_id="c")
    dead = db.start(queue="w", tags=("vip",))
    db.settle(dead, "dead")
    assert [job.id for job in db.find(tags=("vip",), kind=("mail", "fax"), queue="q", correlation_id="c")] == [wanted]
    assert [job.id for job in db.find(tags=("vip",), status="dead")] == [dead.id]
    assert [job.id for job in db.find(tags=("vip",), parent_id=wanted)] == []


def test_tags_of_a_tenant(db):
    mine = [db.enqueue(tenant="acme", tenant_id=ACME, tags=("vip", "x")).id for _ in range(3)]
    db.enqueue(tags=("vip",))
    assert [job.id for job in db.find(tenant_id=ACME, tags=("vip",))] == mine[::-1]
    assert [job.id for job in db.find(tenant_id=ACME, any_tags=("vip", "x"), order="priority")] == mine
    assert len(db.find(tags=("vip",))) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ok", "no way"], "tags has 'no way', which is not a tag: use 1 to 64 letters"),
        (["x" * 65], "which is not a tag"),
        ("", "tags has '', which is not a tag"),
        ([7], "tags has 7, which is not a tag"),
        (["-x"], "which is not a tag"),
        (7, "tags=7 is not a collection of tags: give one like ('vip', 'eu')"),
        ({"a": 1}, "is not a collection of tags"),
        ([f"t{n}" for n in range(21)], "tags are 21, with those of the kind: a job may have 20"),
    ],
)
def test_what_is_no_tag(given, said):
    with pytest.raises(InvalidJob) as refused:
        tags(given)
    assert said in str(refused.value)


def test_tags_are_sorted_and_each_is_there_once():
    assert tags(("vip", "eu", "vip", "a:b/c@d=e+f.g-h_i")) == ("a:b/c@d=e+f.g-h_i", "eu", "vip")
    assert merged(("b",), ("a", "b")) == ("a", "b")


def test_sql_checks_tags(postgres_store):
    conn = postgres_store.side
    (made,) = conn.execute("select job_id from headway.enqueue('k', tags => '{vip,eu,vip}')").fetchone()
    assert conn.execute("select tags from headway.jobs where id = %s", (made,)).fetchone() == (["eu", "vip"],)
    for wrong, said in (
        ("{no way}", "which is not a tag"),
        ("{null}", "tags has null"),
        (f"{{{','.join(map(str, range(21)))}}}", "tags are 21"),
    ):
        with pytest.raises(Exception, match=said):
            conn.execute("select headway.enqueue('k', tags => %s)", (wrong,))
    (none,) = conn.execute("select job_id from headway.enqueue('k', tags => '{}')").fetchone()
    assert conn.execute("select tags from headway.jobs where id = %s", (none,)).fetchone() == (None,)
