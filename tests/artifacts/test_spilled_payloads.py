"""Payloads over the limit of rows, of kinds that let them spill: an artifact of the job has them, and its handler gets
them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from headway import Context, Done, Headway, Machine, Retry, Spawn, step
from headway.errors import Duplicate, InvalidPayload, NotAllowed, QueueFull
from headway.model.ids import DEFAULT_TENANT_ID

LIMIT = 1_000
BIG = "zwölf " * 170  # over the limit in bytes, and not in characters


@pytest.fixture
def app(url: str, tmp_path: Path) -> Iterator[Headway]:
    app = make(url, tmp_path / "artifacts")
    yield app
    app.close()


def make(url: str, folder: Path) -> Headway:
    return Headway(
        url, artifacts=str(folder), payload_limit=LIMIT, result_limit=5_000, spill_limit=8_000, grace="100ms"
    )


def test_a_payload_over_the_limit_is_an_artifact_and_its_handler_gets_the_value(
    app: Headway, url: str, tmp_path: Path
) -> None:
    @app.job(spill=True)
    def count(text: str, n: int = 0) -> int:
        return len(text) + n

    @app.job(spill=True)
    def echo(**given: Any) -> Any:
        return given

    @app.job
    def without(text: str) -> None: ...

    @app.machine
    class Keeps(Machine, spill=True):
        @step
        def start(self, ctx: Context[Any]) -> Done:
            return Done(None)

    assert len(BIG) > LIMIT >= len(json.dumps({"text": "x" * (LIMIT - 12)}))
    jobs = [
        count.enqueue("x" * (LIMIT - 11)),  # fits to the byte
        count.enqueue(BIG),
        *app.enqueue_many([count.build("a" * 3_000, 1), count.build("b"), count.build("c" * 4_000)]),
        asyncio.run(_aenqueue(app, "count", {"text": "d" * 2_000})),
        app.tenant("acme").enqueue("count", {"text": "e" * 2_000}),
    ]
    files = [app.artifacts(job.id) for job in jobs]
    assert [len(each) for each in files] == [0, 1, 1, 0, 1, 1, 1]
    (kept,) = files[1]
    assert (kept.name, kept.content_type, kept.fence, kept.job_id) == (
        ".payload.json",
        "application/json",
        0,
        jobs[1].id,
    )
    assert app.get(jobs[1].id).payload == {"$artifact": kept.id}
    with app.open_artifact(kept.id) as file:
        assert msgspec.json.decode(file.read()) == {"text": BIG}
    assert files[6][0].tenant_id == app.get(jobs[6].id).tenant_id != DEFAULT_TENANT_ID

    # what looks like a reference is not one, even with the id of a real artifact, of another job or of its own result
    own = echo.enqueue(**{"$artifact": kept.id})
    app.run(until_idle=True)
    assert app.result(own.id).value == {"$artifact": kept.id}
    assert [app.result(job.id).value for job in jobs] == [LIMIT - 11, len(BIG), 3_001, 1, 4_000, 2_000, 2_000]
    assert app.run_now("count", {"text": BIG, "n": 7}).value == len(BIG) + 7
    assert app.retry(jobs[1].id) == jobs[1].id
    app.run(until_idle=True)
    assert app.get(jobs[1].id).fence == 2

    for refused, way_out in (
        (lambda: without.enqueue(BIG), r"let it spill: @app.job\(spill=True\)"),
        (lambda: app.enqueue("without", {"text": BIG}), r"let it spill: @app.job\(spill=True\)"),
        (lambda: app.enqueue("keeps", {"text": BIG}), "pass a reference"),
        (lambda: app.change(count.using(delay="1h").enqueue("a").id, payload={"text": BIG}), "only an enqueue lets"),
        (lambda: app.retry(jobs[1].id, payload={"text": BIG}), "only an enqueue lets"),
    ):
        with pytest.raises(InvalidPayload, match=f"over the limit of 1,000.*{way_out}"):
            refused()
    with pytest.raises(InvalidPayload, match="over the limit of 8,000"):
        count.enqueue("x" * 9_000)

    # an app without the code knows it by the definition, and what the kind's schema says
    with closing(make(url, tmp_path / "artifacts")) as other:
        job = other.enqueue("count", {"text": BIG, "n": 1})
        with pytest.raises(InvalidPayload):
            other.enqueue("count", {"text": BIG, "n": "one"})
        with pytest.raises(InvalidPayload, match="over the limit of 1,000"):
            other.enqueue("keeps", {"text": BIG})
        assert other.build_job("count", {"text": BIG}).payload == count.build(BIG).payload
    app.run(until_idle=True)
    assert app.result(job.id).value == len(BIG) + 1


def test_a_key_that_is_taken_drops_the_bytes_and_a_replaced_payload_is_deleted(app: Headway, tmp_path: Path) -> None:
    @app.job(spill=True, unique_by=("text",), unique_scope=("queued", "scheduled", "running", "succeeded"))
    def once(text: str) -> int:
        return len(text)

    @app.job(spill=True)
    def report(text: str) -> str:
        return text[:4]

    first, second = once.enqueue(BIG), once.enqueue(BIG)
    other = once.enqueue(BIG + "!")
    assert (second.id, second.created, other.created) == (first.id, False, True)
    with pytest.raises(Duplicate):
        once.using(on_conflict="raise").enqueue(BIG)
    keyed = [report.using(idempotency_key="k").enqueue(BIG) for _ in range(2)]
    assert [each.created for each in keyed] == [True, False]

    replacing = report.using(unique_key="report", on_conflict="replace", delay="1h")
    ids = {replacing.enqueue(text * 2_000).id for text in "abc"}
    (job_id,) = ids
    (kept,) = app.artifacts(job_id)
    assert app.get(job_id).payload == {"$artifact": kept.id}
    app.change(job_id, scheduled_for=None)
    app.run(until_idle=True)  # which sweeps, too
    assert app.result(job_id).value == "cccc"
    assert len(_files(tmp_path / "artifacts")) == 4  # of first, other, keyed and the last report
    app.delete(first.id)
    app.run(until_idle=True)
    assert len(_files(tmp_path / "artifacts")) == 3


def test_the_job_that_retries_one_as_new_shares_its_payload(app: Headway, tmp_path: Path) -> None:
    @app.job(spill=True, delivery="at_most_once", max_attempts=2, backoff="1ms")
    def fragile(text: str) -> int:
        raise Retry(delay="1ms") if not done else ValueError

    done: list[int] = []
    job = fragile.enqueue(BIG)
    app.run(until_idle=True)
    (heir,) = app.jobs(retry_of=job.id)
    done.append(1)
    app.run(until_idle=True)
    last = app.retry(heir.id)
    copies = [app.artifacts(each) for each in (job.id, heir.id, last)]
    assert [len(each) for each in copies] == [1, 1, 1]
    assert len({each[0].path for each in copies}) == 1
    assert [app.get(each).payload for each in (heir.id, last)] == [{"$artifact": each[0].id} for each in copies[1:]]
    for gone in (job.id, heir.id):
        app.delete(gone)
        app.run(until_idle=True, queues=["none"])
        assert len(_files(tmp_path / "artifacts")) == 1
    app.cancel(last)
    app.delete(last)
    app.run(until_idle=True, queues=["none"])
    assert _files(tmp_path / "artifacts") == []


def test_spilled_values_count_in_their_tenants_quota_and_go_with_it(app: Headway, tmp_path: Path) -> None:
    @app.job(spill=True)
    def twice(text: str) -> str:
        return text + text

    acme = app.tenant("acme")
    app.limit(tenant="acme", max_bytes=5_000)
    first = acme.enqueue("twice", {"text": "a" * 3_000})
    for over in (
        lambda: acme.enqueue("twice", {"text": "b" * 3_000}),
        lambda: asyncio.run(_aenqueue(acme, "twice", {"text": "b" * 3_000})),
    ):
        with pytest.raises(
            QueueFull, match=r"3,?\d{3} bytes of payloads waiting, and 3,?011 more would be over its max_bytes"
        ):
            over()
    assert len(_files(tmp_path / "artifacts")) == 1  # a refused one leaves none
    mine = twice.enqueue("c" * 2_000)
    app.run(until_idle=True)
    acme.enqueue("twice", {"text": "d" * 4_000})  # what ran does not count
    assert (app.result(first.id).value, len(_files(tmp_path / "artifacts"))) == ("a" * 6_000, 4)

    assert app.delete_tenant("acme").rows["artifacts"] == 3
    app.prune()
    assert {app.artifact(path.name).job_id for path in _files(tmp_path / "artifacts")} == {mine.id}
    app.delete(mine.id)
    app.prune()
    assert _files(tmp_path / "artifacts") == []


def test_a_payload_out_of_reach_waits_for_a_worker_that_has_it_and_one_that_is_gone_fails_the_attempt(
    app: Headway, url: str, tmp_path: Path
) -> None:
    seen: list[int] = []

    def count(text: str) -> None:
        seen.append(len(text))

    app.job(spill=True, backoff="1h")(count)
    job = app.enqueue("count", {"text": BIG})
    with closing(make(url, tmp_path / "elsewhere")) as other:
        other.job(spill=True, backoff="1h")(count)
        other.run(until_idle=True)
    found = app.get(job.id)
    assert (found.status, found.tries, seen) == ("scheduled", 0, [])
    assert f"{tmp_path / 'artifacts'}: a worker whose setting artifacts is another place" in app.why(job.id).reasons[-1]
    assert "its payload is in a folder: a worker" in app.tenant("default").why(job.id).reasons[-1]
    (file,) = _files(tmp_path / "artifacts")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"z", b"y"))
    app.change(job.id, scheduled_for=None)
    app.run(until_idle=True)
    file.unlink()
    app.change(job.id, scheduled_for=None)
    app.run(until_idle=True)
    assert [(each.status, "ArtifactGone" in (each.error or "")) for each in app.attempts(job.id)] == [
        ("failed", True),
        ("failed", True),
    ]
    file.write_bytes(content)
    app.change(job.id, scheduled_for=None)
    app.run(until_idle=True)
    assert (app.get(job.id).status, seen) == ("succeeded", [len(BIG)])


def test_within_the_callers_transaction_the_bytes_come_first_and_a_rollback_leaves_them_to_the_sweep(
    app: Headway, url: str, tmp_path: Path
) -> None:
    @app.job(spill=True)
    def count(text: str) -> int:
        return len(text)

    if url.startswith("sqlite"):
        refused = pytest.raises(NotAllowed, match="cannot spill within your own transaction on SQLite")
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as conn, refused:
            count.using(conn=conn).enqueue(BIG)
        assert not (tmp_path / "artifacts").exists()
        return
    with psycopg.connect(url) as conn:
        undone = count.using(conn=conn).enqueue(BIG)
        conn.rollback()
        _an_hour_later(url)
        done = count.using(conn=conn).enqueue(BIG)
        app.run(until_idle=True)
        conn.commit()
    app.run(until_idle=True)
    assert app.jobs(ids=[undone.id]) == []
    assert app.result(done.id).value == len(BIG)
    assert len(_files(tmp_path / "artifacts")) == 1


def test_children_and_triggers_cannot_spill_and_say_so(app: Headway) -> None:
    @app.job(spill=True)
    def count(text: str) -> int:
        return len(text)

    @app.machine
    class Parent(Machine):
        @step
        def start(self, ctx: Context[Any]) -> Spawn:
            return Spawn([count.build(BIG)], then=self.join)

        @step
        def join(self, ctx: Context[Any]) -> Done:
            return Done(None)

    parent = app.enqueue("parent")
    app.create_template("large", "count", {"text": "x"})
    from_template = app.enqueue(app.build_from_template("large", {"text": BIG}))
    app.create_trigger("large", "made", kind="count", payload={"text": "{{event.text}}{{event.text}}"})
    app.emit("made", {"text": "a" * 600})
    app.run(until_idle=True)
    found = app.get(parent.id)
    assert (found.status, "a child, count, is over the limit of 1,000 bytes" in str(found.error)) == ("dead", True)
    assert app.result(from_template.id).value == len(BIG)
    (fire,) = app.fires(trigger="large")
    assert (fire.status, "would have more than 1,000 bytes" in str(fire.error)) == ("failed", True)


def _an_hour_later(url: str) -> None:
    """For the bytes that were begun."""
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as conn:
            conn.execute("update artifact_trash set since = since - 3600000001")
    else:
        with psycopg.connect(url) as conn:
            conn.execute("update headway.artifact_trash set since = since - interval '61 minutes'")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "id"]


async def _aenqueue(app: Headway, kind: str, payload: dict[str, Any]) -> Any:
    return await app.aenqueue(kind, payload)
