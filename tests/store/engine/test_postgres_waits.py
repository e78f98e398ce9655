"""What one row, or one open transaction, must not do to everybody else's on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import Enqueued, NewJob, Settlement
from headway.model.retry import released

SCOPE = ("queued", "scheduled")


@pytest.fixture
def worker(postgres_store) -> str:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        # what waits for others' locks is not saved by the settings of a test database: it runs into another error
        name = conn.info.dbname
        conn.execute(f"alter database {name} set lock_timeout = 0")
        conn.execute(f"alter database {name} set statement_timeout = '5s'")
    worker_id = new_id()
    postgres_store.run(
        postgres_store.ops.register(
            NewWorker(
                id=worker_id,
                hostname="here",
                pid=1,
                machine=None,
                process_started=None,
                version="1",
                queues={"default": 9},
                kinds=("k",),
                concurrency=9,
                lease_ms=60_000,
            )
        )
    )
    return worker_id


def _again(claim) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, status="failed", to="scheduled", charge=1, delay_ms=60_000)


def test_an_open_transaction_that_holds_a_key_keeps_no_other_outcome_waiting(postgres_store, worker) -> None:
    ops = postgres_store.ops
    keyed = NewJob(id=new_id(), kind="k", unique_key="u", unique_scope=SCOPE)
    other = NewJob(id=new_id(), kind="k")
    postgres_store.run(ops.enqueue([keyed, other]))
    first, second = postgres_store.run(ops.claim(worker, "default", 2))
    done = Settlement(id=second.id, fence=second.fence, status="succeeded", to="succeeded")
    with psycopg.connect(postgres_store.url) as user:
        user.execute("select headway.enqueue('k', unique_key => 'u', unique_scope => '{queued,scheduled}')")
        settled = postgres_store.run(ops.settle(worker, [_again(first), done]))
        assert (settled.lost, settled.busy) == ([], [(first.id, first.fence)])
        settled = postgres_store.run(ops.settle(worker, [_again(first)]))
        assert (settled.lost, settled.busy) == ([], [(first.id, first.fence)])
        user.rollback()
    assert postgres_store.run(ops.settle(worker, [_again(first)])).lost == []
    jobs = {job.id: job.status for job in postgres_store.run(ops.get([first.id, second.id], tenant_id=None))}
    assert jobs == {first.id: "scheduled", second.id: "succeeded"}


@pytest.mark.parametrize(
    "call",
    [
        "select headway.enqueue('k', scheduled_for => 'infinity')",
        "select headway.enqueue('k', expires_at => 'infinity')",
        "select headway.enqueue('k', backoff_base => '100000000 years')",
        "select headway.enqueue('k', backoff_cap => '100000000 years')",
        "select headway.enqueue('k', timeout => '-1 second')",
    ],
)
def test_times_that_a_tick_cannot_reckon_with_do_not_come_in(postgres_store, call: str) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn, pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(call)


@pytest.mark.parametrize(
    "change",
    [
        "delivery = 'twice'",
        "source = 'nowhere'",
        "max_attempts = 0",
        "max_losses = 0",
        "backoff_base_ms = -1",
        "backoff_cap_ms = 3162240000001",
        "timeout_ms = 0",
        "scheduled_for = 'infinity'",
        "expires_at = 'infinity'",
        "train = ''",
        "partition = repeat('x', 256)",
        "on_dead = 'advance'",
        "on_canceled = 'stop'",
        "concurrency = 0",
        "concurrency_key = 'k'",
        "rate_count = 1",
        "rate_count = 1, rate_period_ms = 0",
        "rate_period_ms = 1",
        "rate_burst = 1",
        "rate_key = 'k'",
        "rate_count = 1, rate_period_ms = 1, rate_burst = 0",
        "limited_by = 'k:k', status = 'scheduled'",
    ],
)
def test_a_value_that_a_job_cannot_have_neither_comes_in_nor_is_changed_to(postgres_store, change: str) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        conn.execute("select headway.enqueue('k')")
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute(f"update headway.jobs set {change}")
        conn.execute("create temporary table copied as select * from headway.jobs")
        conn.execute(f"update copied set id = gen_random_uuid(), {change}")
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute("insert into headway.jobs select * from copied")


def test_a_job_comes_in_with_no_status_that_does_not_exist(postgres_store) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        conn.execute("select headway.enqueue('k')")
        conn.execute("create temporary table copied as select * from headway.jobs")
        conn.execute("update copied set id = gen_random_uuid(), status = 'lost'")
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute("insert into headway.jobs select * from copied")


@pytest.mark.parametrize(
    "enqueue",
    [
        "enqueue('k')",
        "enqueue('k', id => (select id from headway.jobs limit 1))",
        "enqueue_plain(gen_random_uuid(), 'k', 'default', '{}', 100::smallint, 5, 5, 1000, 1000, null)",
        "enqueue_many(array[gen_random_uuid(), gen_random_uuid()], '{k,k}')",
        "enqueue_many(array[gen_random_uuid(), gen_random_uuid()], '{k,k}', p_trains => '{t,t}')",
    ],
)
def test_a_raw_insert_is_checked_in_a_transaction_that_has_enqueued(postgres_store, enqueue: str) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        conn.execute("select headway.enqueue('k')")
        conn.execute("create temporary table copied as select * from headway.jobs")
        conn.execute("update copied set id = gen_random_uuid(), status = 'lost'")
        conn.execute("begin")
        conn.execute(f"select headway.{enqueue}")
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute("insert into headway.jobs select * from copied")


def test_a_car_is_settled_and_the_next_one_claimed_without_subtransactions(postgres_store, worker) -> None:
    """A row that is changed in two of them gets a multixact, and its dead versions stay in the indexes until vacuum."""
    ops = postgres_store.ops
    cars = [NewJob(id=new_id(), kind="k", train="t") for _ in range(2)]
    postgres_store.run(ops.enqueue(cars))
    (claim,) = postgres_store.run(ops.claim(worker, "default", 1))
    with psycopg.connect(postgres_store.url) as conn:
        conn.execute(
            "select from headway.settle_and_claim('default', 1, %s, %s::uuid[], %s, '{succeeded}', '{succeeded}')",
            (worker, [claim.id], [claim.fence]),
        )
        rows = conn.execute(
            "select status, xmin = pg_current_xact_id()::xid from headway.jobs where id = any (%s::uuid[]) order by id",
            ([car.id for car in cars],),
        ).fetchall()
    assert rows == [("succeeded", True), ("running", True)]


def test_an_enqueue_without_an_id_tells_the_holder_of_its_key(postgres_store) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        for key in ("unique_key", "idempotency_key"):
            first = conn.execute(f"select * from headway.enqueue('k', {key} => 'x')").fetchone()
            again = conn.execute(f"select * from headway.enqueue('k', {key} => 'x')").fetchone()
            assert first
            assert (first[1:], again) == (("queued", True, False), (first[0], "queued", False, False))


def test_an_id_that_is_taken_by_another_tenant_is_refused_in_words(postgres_store) -> None:
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        job_id = new_id()
        conn.execute("select headway.enqueue('k', id => %s, tenant => %s)", (job_id, new_id()))
        with pytest.raises(psycopg.Error, match="is taken"):
            conn.execute("select headway.enqueue('k', id => %s)", (job_id,))


def test_a_success_at_a_later_attempt_has_its_own_start_also_by_the_short_way(postgres_store, worker) -> None:
    ops = postgres_store.ops
    postgres_store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))
    (first,) = postgres_store.run(ops.claim(worker, "default", 1))
    postgres_store.run(ops.settle(worker, [released(first, "given back")]))
    (again,) = postgres_store.run(ops.claim(worker, "default", 1))
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        started = conn.execute("select attempt_started_at from headway.jobs").fetchone()
        assert conn.execute("select * from headway.succeed(%s, %s, '{2}')", (worker, [again.id])).fetchall() == []
        assert conn.execute("select started_at from headway.attempts where fence = 2").fetchone() == started
        assert conn.execute("select status from headway.jobs").fetchone() == ("succeeded",)


def test_claims_are_in_order_whatever_the_planner_once_saw(postgres_store, worker) -> None:
    """A table that was analyzed with one row in it is planned for as if it had one forever."""
    ops = postgres_store.ops
    postgres_store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))
    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        conn.execute("vacuum analyze headway.jobs")
    postgres_store.run(ops.claim(worker, "default", 1))
    jobs = [NewJob(id=new_id(), kind="k", priority=200 - n) for n in range(100)]
    postgres_store.run(ops.enqueue(jobs))
    claims = postgres_store.run(ops.claim(worker, "default", 50))
    assert [claim.id for claim in claims] == [job.id for job in reversed(jobs)][:50]


def test_the_job_that_retries_another_is_looked_at_as_any_new_one(postgres_store, worker) -> None:
    ops = postgres_store.ops
    postgres_store.run(ops.enqueue([NewJob(id=new_id(), kind="k", delivery="at_most_once")]))
    (claim,) = postgres_store.run(ops.claim(worker, "default", 1))
    far = "select headway.settle(%s, %s, '{1}', '{failed}', '{failed}', p_delays_ms => '{300000000000000}')"
    with psycopg.connect(postgres_store.url, autocommit=True) as conn, pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(far, (worker, [claim.id]))


def test_an_enqueue_that_the_store_sends_again_says_created(postgres_store):
    job = NewJob(id=new_id(), kind="mail")
    op = postgres_store.ops.enqueue([job])
    postgres_store.run(op)  # and its answer is lost
    assert postgres_store.run(op) == [Enqueued(job.id, "queued", True)]
    assert postgres_store.run(postgres_store.ops.enqueue([job])) == [Enqueued(job.id, "queued", False)]


def test_no_function_is_compiled_because_a_scan_is_switched_off(postgres_store) -> None:
    """The planner adds 1e10 to the cost of such a scan; above 100,000 the server compiles every execution (JIT)."""
    with psycopg.connect(postgres_store.url) as conn:
        switched = conn.execute(
            "select proname, 'jit=off' = any (proconfig) from pg_proc"
            " where pronamespace = 'headway'::regnamespace and 'enable_seqscan=off' = any (proconfig)"
        ).fetchall()
    assert len(switched) > 10
    assert [name for name, uncompiled in switched if not uncompiled] == []
