"""A request that creates something, sent again with its key, creates nothing again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest

from headway.errors import Duplicate, Replayed
from headway.model.event import NewEvent
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import NewJob
from headway.model.request import KEPT_MS, Request
from tests.tenant_ids import tenant_id


def request(key: str = "k1", *, body: bytes = b"0", route: str = "POST /jobs", key_id: str = "a") -> Request:
    return Request(tenant_id=DEFAULT_TENANT_ID, key_id=key_id, route=route, key=key, body_hash=body * 32)


def enqueued(db: Any, of: Request, **fields: Any) -> Any:
    return db.run(db.ops.once(of, db.ops.enqueue([NewJob(id=new_id(), kind="welcome", **fields)])))


def replay(ask: Callable[[], Any]) -> list[tuple[str, bool]]:
    with pytest.raises(Replayed) as again:
        ask()
    return again.value.created


def test_a_repeated_request_gives_the_ids_of_the_first(db):
    (made,) = enqueued(db, request(), unique_key="u", train="t")
    assert (made.created, made.status) == (True, "queued")
    assert replay(lambda: enqueued(db, request())) == [(made.id, True)]
    (met,) = enqueued(db, request("k2"), unique_key="u")
    assert replay(lambda: enqueued(db, request("k2"))) == [(met.id, False)] == [(made.id, False)]
    for other in (request(key_id="b"), request(route="POST /jobs/batch")):
        enqueued(db, other)
    with pytest.raises(Duplicate, match="came with another body") as conflict:
        enqueued(db, request(body=b"1"))
    assert conflict.value.job_id == made.id
    # a key that is for all tenants may say the same words to each
    elsewhere = msgspec.structs.replace(request(), tenant_id=tenant_id("acme"))
    (there,) = enqueued(db, elsewhere, tenant_id=tenant_id("acme"))
    assert there.created
    assert replay(lambda: enqueued(db, elsewhere)) == [(there.id, True)]
    assert replay(lambda: enqueued(db, request())) == [(made.id, True)]
    event = NewEvent(id=new_id(), tenant_id=DEFAULT_TENANT_ID, name="sold")
    assert db.run(db.ops.once(request("e"), db.ops.emit([event]))) == [event.id]
    assert replay(lambda: db.run(db.ops.once(request("e"), db.ops.emit([event])))) == [(event.id, True)]
    assert len(db.find()) == 4


def test_a_refused_request_is_not_kept(db):
    refused = NewJob(id=new_id(), kind="welcome", unique_key="u", on_conflict="raise")
    enqueued(db, request("k0"), unique_key="u")
    with pytest.raises(Duplicate, match="unique"):
        db.run(db.ops.once(request(), db.ops.enqueue([refused])))
    db.run(db.ops.cancel([db.find()[0].id], tenant_id=None, reason=None, actor=None))
    (made,) = db.run(db.ops.once(request(), db.ops.enqueue([refused])))
    assert made.created


def test_a_request_is_forgotten_after_a_day(db):
    (made,) = enqueued(db, request())
    enqueued(db, request("k2"))
    db.advance((KEPT_MS - 1) / 1_000)
    assert replay(lambda: enqueued(db, request())) == [(made.id, True)]
    assert db.run(db.ops.prune_requests(limit=1)) == 0
    db.advance(0.001)
    (second,) = enqueued(db, request(body=b"1"))  # whether it was pruned or not
    assert second.created
    assert [db.run(db.ops.prune_requests(limit=5)) for _ in range(2)] == [1, 0]
    assert replay(lambda: enqueued(db, request(body=b"1"))) == [(second.id, True)]


def test_requests_with_the_same_key_at_once_have_one_effect(db):
    start, made, again = Barrier(8), [], []

    def ask() -> None:
        start.wait()
        try:
            made.extend(enqueued(db, request()))
        except Replayed as replayed:
            again.extend(replayed.created)

    threads = [Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert again == [(made[0].id, True)] * 7
    assert [job.id for job in db.find()] == [made[0].id]
