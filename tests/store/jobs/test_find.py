"""Lists: several values at once, exact values in meta, and every order page by page."""

from __future__ import annotations

import json

import pytest

from headway.errors import InvalidJob
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.listing import Cursor, Filter, check_order, meta_paths
from tests.tenant_ids import tenant_id


def pages(db, order, size, **where):
    """The ids of all pages, read as a program would: each page after the last job of the one before it."""
    found, last = [], None
    while page := db.find(limit=size, order=order, after=last, **where):
        found += [job.id for job in page]
        last = page[-1]
    return found


@pytest.fixture
def crowd(db, make):
    """Queued jobs of three priorities, some of which share tags; in order of creation."""
    jobs = [make.job(priority=100 + n % 3, tags=("even",) if n % 2 == 0 else ("odd", "both")) for n in range(23)]
    db.enqueue_all(jobs)
    db.enqueue_ids(3, queue="other", tags=("odd",))
    return [(job.priority, job.id, n) for n, job in enumerate(jobs)]


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("tags", [{}, {"tags": ("odd", "both")}, {"any_tags": ("odd", "both")}])
def test_each_order_has_every_job_once_page_by_page(db, crowd, size, tags):
    jobs = [(priority, job_id, n) for priority, job_id, n in crowd if not tags or n % 2]
    by_id = sorted(job_id for _, job_id, _ in jobs)
    where = {"queue": "default", **tags}
    assert pages(db, "newest", size, **where) == by_id[::-1]
    assert pages(db, "oldest", size, **where) == by_id
    assert pages(db, "priority", size, **where) == [job_id for _, job_id, _ in sorted(jobs)]
    assert pages(db, "run", size, **where) == [
        job_id for _, job_id, _ in sorted(jobs, key=lambda job: (job[0], job[2]))
    ]


@pytest.mark.parametrize("status", ["dead", "running", "scheduled", "queued", None])
def test_each_order_with_a_status(db, status):
    ids = []
    for n in range(6):
        match status:
            case "dead" | "running":
                claim = db.start(queue=f"q{n}", priority=n % 2)
                ids.append((claim.id, n))
                if status == "dead":
                    db.settle(claim, "dead")
            case "scheduled":
                ids.append((db.enqueue(delay_ms=60_000, priority=n % 2).id, n))
            case _:
                ids.append((db.enqueue(priority=n % 2).id, n))
    if status is not None:
        db.settle(db.start(queue="noise"), "succeeded")
    by_id = sorted(job_id for job_id, _ in ids)
    assert pages(db, "newest", 2, status=status) == by_id[::-1]
    assert pages(db, "oldest", 2, status=status) == by_id
    assert pages(db, "priority", 2, status=status) == [
        job_id for _, job_id in sorted((n % 2, job_id) for job_id, n in ids)
    ]


def test_the_run_order_is_the_order_of_claims_with_jobs_that_a_limit_keeps_back(db, make):
    jobs = [make.job(priority=100 - n % 2, partition="p" if n < 4 else None) for n in range(8)]
    db.enqueue_all(jobs)
    db.move(jobs[6].id, first=True)
    ((running),) = db.claim(limit=1)
    rest = db.find(queue="default", order="run")
    db.claim(limit=2)  # sets the others of the partition aside
    aside = [job for job in db.find(queue="default", status="queued") if job.limited_by]
    assert aside
    line = [job.id for job in db.find(queue="default", order="run")]
    expected = [job.id for job in rest if job.id in line]
    assert line == expected
    assert {job.id for job in aside} < set(line)
    assert running.id not in line


def test_a_cursor_stays_right_when_its_job_changes(db):
    ids = db.enqueue_ids(6)
    first = db.find(order="priority", limit=2, queue="default")
    db.change(first[-1].id, priority=500)
    db.cancel(first[0].id)
    assert [job.id for job in db.find(order="priority", after=first[-1], queue="default")] == [*ids[2:], ids[1]]
    line = db.find(order="run", limit=2, queue="default")
    db.change(line[-1].id, priority=1)
    assert [job.id for job in db.find(order="run", after=line[-1], queue="default")] == [*ids[4:], ids[1]]


def searched(db, order, search_limit, size=50, **where):
    """The ids that a search finds, page by page, and the ids at which it ended because it had looked at enough."""
    found, edges, last = [], [], None
    while True:
        op = db.ops.find(Filter(**where), limit=size, order=order, after=last, search_limit=search_limit)
        page = db.run(op)
        found += [job.id for job in page]
        if page.reached is None and len(page) < size:
            return found, edges
        if page.reached is not None:
            assert page.early
            edges.append(page.reached)
        last = Cursor(page.reached or page[-1].id)


def test_a_search_ends_where_it_looked_at_enough_and_goes_on_from_there(db):
    ids = {n: db.enqueue(kind="rare" if n % 10 == 0 else "often", correlation_id=f"c{n}").id for n in range(30)}
    assert searched(db, "newest", 7, kind="rare") == ([ids[20], ids[10], ids[0]], [ids[n] for n in (23, 16, 9, 2)])
    assert searched(db, "oldest", 7, kind="rare") == ([ids[0], ids[10], ids[20]], [ids[n] for n in (6, 13, 20, 27)])
    assert searched(db, "newest", 15, correlation_id="none") == ([], [ids[15], ids[0]])
    assert searched(db, "newest", 30, unique_key="none") == ([], [ids[0]])
    assert searched(db, "newest", 31, train="none") == ([], [])
    # a full page has no edge; the next one begins after its last job
    assert searched(db, "newest", 12, size=1, kind="rare") == ([ids[20], ids[10], ids[0]], [])
    # a range of ids ends the search, too
    within = {"id_from": ids[5], "id_to": ids[21], "kind": "rare"}
    assert searched(db, "newest", 7, **within)[0] == [ids[20], ids[10]]
    assert searched(db, "oldest", 7, **within)[0] == [ids[10], ids[20]]
    assert searched(db, "newest", 100, **within) == ([ids[20], ids[10]], [])
    # other orders, and what an index finds, are searched whole
    for where in ({"ids": (ids[3], ids[20])}, {"retry_of": ids[0]}, {"group_id": ids[0]}, {"parent_id": ids[0]}):
        assert searched(db, "newest", 1, kind="rare", **where)[1] == []
    page = db.run(db.ops.find(Filter(kind="rare"), limit=9, order="priority", search_limit=1))
    assert [job.id for job in page] == [ids[0], ids[10], ids[20]]


def test_a_search_of_a_tenant_a_status_a_tag_or_an_error_walks_only_those(db):
    tenant = tenant_id("other")
    other = {}
    for n in range(12):
        db.settle(db.start(queue=f"q{n}", tags=("odd",) if n % 2 else ("even",)), "dead", error="Boom: x")
        other[n] = db.enqueue(tenant_id=tenant, kind="rare" if n % 6 == 0 else "often", tags=("odd", "b")).id
    dead = [job.id for job in db.find(status="dead")]
    rare = [other[6], other[0]]
    assert searched(db, "newest", 4, tenant_id=tenant, kind="rare") == (rare, [other[8], other[4], other[0]])
    assert searched(db, "newest", 4, tenant_id=tenant, status="queued", kind="rare")[0] == rare
    assert searched(db, "oldest", 5, tenant_id=tenant, kind="rare") == (rare[::-1], [other[4], other[9]])
    assert searched(db, "newest", 5, status="dead", kind="none") == ([], [dead[4], dead[9]])
    assert searched(db, "oldest", 5, status="dead", kind="none") == ([], [dead[7], dead[2]])
    odd = [job.id for job in db.find(tags=("odd",))]
    assert searched(db, "newest", 9, tags=("odd",), kind="none") == ([], [odd[8], odd[17]])
    assert searched(db, "newest", 9, any_tags=("odd", "b"), kind="rare")[0] == rare
    assert searched(db, "oldest", 5, tags=("odd",), tenant_id=tenant, kind="rare") == (rare[::-1], [other[4], other[9]])
    assert searched(db, "newest", 5, status="queued")[0] == [*other.values()][::-1]


def test_one_of_several_kinds_and_sources(db):
    ids = [db.enqueue(kind=kind, source=source).id for kind in ("a", "b", "c") for source in ("manual", "event")]
    assert [job.id for job in db.find(kind=("a", "c"))] == [ids[5], ids[4], ids[1], ids[0]]
    assert [job.id for job in db.find(kind=("a", "c"), source=("event",))] == [ids[5], ids[1]]
    assert [job.id for job in db.find(kind="b", source=("event", "schedule"))] == [ids[3]]


@pytest.mark.parametrize("order", ["newest", "oldest", "priority"])
def test_one_of_several_trains_and_groups(db, make, order):
    rows = [make.group() for _ in range(3)]
    groups = [row.id for row in rows]
    for row in rows:
        db.enqueue_all([], row)
    jobs = [db.enqueue(train=train, group_id=group).id for train in ("a", "b", None) for group in (*groups, None)]

    def found(**where):
        by_id = pages(db, order, 2, **where)
        return [jobs.index(each) for each in (by_id[::-1] if order == "newest" else by_id)]

    assert found(train="a") == found(train=("a",)) == [0, 1, 2, 3]
    assert found(train=("a", "b", "none")) == list(range(8))
    assert found(group_id=groups[0]) == found(group_id=(groups[0],)) == [0, 4, 8]
    assert found(group_id=(groups[0], groups[2])) == [0, 2, 4, 6, 8, 10]
    assert found(group_id=(groups[0], groups[2]), train=("a", "b")) == [0, 2, 4, 6]
    assert found(group_id=tuple(groups), status="held") == [1, 2, 5, 6]
    assert found(group_id=tuple(groups), status="held", tenant_id=DEFAULT_TENANT_ID) == [1, 2, 5, 6]
    assert found(group_id=tuple(groups), tenant_id=tenant_id("other")) == []
    assert found(train=("none", "nor this")) == found(group_id=(jobs[0], jobs[1])) == []


METAS = [
    {"customer": {"id": 7, "name": "Ann"}, "vip": True},
    {"customer": {"id": "7"}, "vip": 1},
    {"customer": [{"id": 7}], "vip": "true"},
    {"customer": {"id": 7.5, "none": None}, "a b": {"ü-1": "x"}},
    {"customer": {"id": True, "big": 10_000_000_000}},
    None,
]


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("customer.id", 7, [0]),
        ("customer.id", 7.0, [0]),
        ("customer.id", "7", [1]),
        ("customer.id", 7.5, [3]),
        ("customer.id", True, [4]),
        ("customer.id", 1, []),
        ("customer.none", None, [3]),
        ("customer.gone", None, []),
        ("customer.big", 10_000_000_000, [4]),
        ("customer.0.id", 7, []),
        ("customer", "Ann", []),
        ("vip", True, [0]),
        ("vip", 1, [1]),
        ("vip", "true", [2]),
        ("a b.ü-1", "x", [3]),
        ("customer.name", "' or 1", []),
    ],
)
def test_meta_has_exactly_this_value_at_this_path(db, path, value, found):
    ids = [db.enqueue(meta=None if meta is None else json.dumps(meta)).id for meta in METAS]
    assert [job.id for job in db.find(meta=meta_paths({path: value}))] == [ids[n] for n in found]


def test_several_paths_all_hold(db):
    ids = [db.enqueue(meta=json.dumps(meta)).id for meta in ({"a": 1, "b": 2}, {"a": 1, "b": 3})]
    assert [job.id for job in db.find(meta=meta_paths({"a": 1, "b": 3}))] == [ids[1]]


def test_what_is_no_path_and_no_value():
    for wrong, said in (
        ({}, "is not a mapping of paths: give one like {'customer.id': 7}"),
        ("x", "is not a mapping of paths"),
        ({"a..b": 1}, "meta has 'a..b', which is not a path: join the names of the fields with dots"),
        ({'a"b': 1}, "which is not a path"),
        ({7: 1}, "which is not a path"),
        ({"a": [1]}, "meta has [1] for a: give a text, a number, True, False or None"),
        ({"a": float("nan")}, "meta has nan for a"),
        ({"a": "\0"}, "meta has a NUL character for a"),
    ):
        with pytest.raises(InvalidJob) as refused:
            meta_paths(wrong)
        assert said in str(refused.value), wrong


def test_what_is_no_order_and_no_cursor():
    for order, where, after, said in (
        ("age", {}, None, "order='age' is unknown: use newest, oldest, priority, run"),
        ("run", {"queue": "q", "status": "dead"}, None, "order='run' is the order of queued jobs: leave status= out"),
        ("run", {}, None, "order='run' is the order of one queue"),
        ("run", {"queue": ("a", "b")}, None, "order='run' is the order of one queue"),
        ("priority", {}, Cursor("x"), "after='x' is only an id: with order='priority', give the last job"),
    ):
        with pytest.raises(InvalidJob) as refused:
            check_order(order, where, after)
        assert said in str(refused.value)
    with pytest.raises(InvalidJob, match="after='nothing' is not an id"):
        Cursor.of("nothing", "after")
