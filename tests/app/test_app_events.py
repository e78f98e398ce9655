"""Events and triggers through the app: emitted, met, rendered, deduped, refused, retried; and the engine's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import psycopg
import pytest

from headway import Headway
from headway.errors import Duplicate, InvalidJob, InvalidPayload, NotAllowed, NotFound
from headway.model.ids import new_id
from headway.testing import drain, held

Call = Callable[..., Any]
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.fixture
def sync(app: Headway, ran: list[Any]) -> Any:
    @app.job(
        max_attempts=1,
        schema={
            "type": "object",
            "properties": {"folder": {"type": "string", "maxLength": 20}},
            "required": ["folder"],
        },
    )
    def sync(folder: str, note: Any = None) -> None:
        ran.append((folder, note))
        if folder == "bad":
            raise LookupError(folder)

    return sync


def resync(app: Any, **fields: Any) -> Any:
    given = {"kind": "sync", "payload": {"folder": "{{event.folder}}", "note": "{{event.note?}}"}, **fields}
    return app.create_trigger("resync", given.pop("event", "provider.folder.updated"), **given)


def test_an_event_makes_a_job_of_each_trigger_on_it(app: Headway, call: Call, ran: list[Any], sync: Any) -> None:
    trigger = call(
        app, "create_trigger", "resync", "provider.folder.updated", kind="sync", payload={"folder": "{{event.folder}}"}
    )
    call(app, "create_trigger", "other", "provider.gone", kind="sync", payload={"folder": "x"})
    event_id = call(app, "emit", "provider.folder.updated", {"folder": "in"}, correlation_id="req-7")
    assert call(app, "get_event", event_id).status == "pending"
    drain(app)
    assert ran == [("in", None)]
    event = call(app, "get_event", event_id)
    assert (event.status, event.payload, event.correlation_id, event.error) == (
        "handled",
        {"folder": "in"},
        "req-7",
        None,
    )
    (fire,) = call(app, "fires", event_id=event_id)
    job = app.get(fire.job_id)
    assert (job.source, job.source_ref, job.trigger_id, job.correlation_id) == ("event", event_id, trigger.id, "req-7")
    assert app.jobs(correlation_id="req-7") == [job]


def test_an_event_that_nobody_waits_for_is_kept_as_handled(app: Headway, ran: list[Any], sync: Any) -> None:
    event_id = app.emit("nobody.listens", [1, "two", None])
    drain(app)
    assert app.get_event(event_id).status == "handled"
    assert app.get_event(event_id).payload == [1, "two", None]
    assert ran == []


def test_a_trigger_made_later_does_not_meet_earlier_events(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    app.emit("provider.folder.updated", {"folder": "early"})
    clock.advance(timedelta(seconds=1))
    resync(app)
    drain(app)
    assert ran == []


def test_only_what_meets_its_conditions_fires(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, when={"event.action": ["created", "moved"], "event.size.kb": 3})
    for number, (action, size) in enumerate(
        [("created", {"kb": 3}), ("deleted", {"kb": 3}), ("moved", {"kb": 4}), ("moved", 3), ("moved", {"kb": 3})]
    ):
        app.emit("provider.folder.updated", {"action": action, "size": size, "folder": str(number)})
    app.emit("provider.folder.updated", None)
    drain(app)
    assert ran == [("0", None), ("4", None)]
    assert {event.status for event in app.events()} == {"handled"}


def test_the_same_payload_is_enqueued_once_in_the_window(app: Headway, clock: Any, ran: list[Any], sync: Any) -> None:
    resync(app, dedupe_window="2m")
    for folder in ("a", "a", "b"):
        app.emit("provider.folder.updated", {"folder": folder, "unused": new_id()})
    drain(app)
    assert ran == [("a", None), ("b", None)]
    deduped = [fire for fire in app.fires(trigger="resync") if fire.status == "deduped"]
    assert len(deduped) == 1
    assert app.get(deduped[0].job_id).payload["folder"] == "a"
    clock.advance(timedelta(minutes=1, seconds=59))
    app.emit("provider.folder.updated", {"folder": "a"})
    drain(app)
    assert len(ran) == 2
    clock.advance(timedelta(seconds=1))
    app.emit("provider.folder.updated", {"folder": "a"})
    drain(app)
    assert len(ran) == 3


def test_where_nothing_of_the_event_is_in_the_payload_the_same_event_is_the_same(
    app: Headway, ran: list[Any], sync: Any
) -> None:
    resync(app, payload={"folder": "all"})
    for number in (1, 2, 2, 3):
        app.emit("provider.folder.updated", {"number": number})
    drain(app)
    assert len(ran) == 3


def test_true_is_not_one(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, when={"event.n": 1})
    app.emit("provider.folder.updated", {"n": True, "folder": "bool"})
    app.emit("provider.folder.updated", {"n": 1.0, "folder": "number"})
    drain(app)
    assert ran == [("number", None)]


def test_one_trigger_that_is_refused_does_not_fail_the_others(app: Headway, ran: list[Any], sync: Any) -> None:
    @app.job
    def off(folder: str) -> None: ...

    drain(app)
    app.change_definition("off", active=False)
    for name, kind in (("a", "sync"), ("b", "off"), ("c", "sync")):
        payload = {"folder": name + "{{event.folder}}"}
        app.create_trigger(name, "provider.folder.updated", kind=kind, payload=payload)
    event_id = app.emit("provider.folder.updated", {"folder": "x"})
    drain(app)
    assert sorted(folder for folder, _ in ran) == ["ax", "cx"]
    event = app.get_event(event_id)
    assert (event.status, (event.error or "").partition(":")[0]) == ("failed", "b")
    app.change_definition("off", active=True)
    app.retry_event(event_id)
    drain(app)
    assert app.get_event(event_id).status == "handled"
    assert len(ran) == 2


def str_of_x(x: int) -> str:
    return str(x)


def test_triggers_of_a_kind_whose_keys_are_templates_fire_without_its_code(
    app: Headway, url: str, clock: Any, ran: list[Any]
) -> None:
    elsewhere = Headway(url)
    elsewhere.job(name="sort", train="t{x}", partition="p{x}")(lambda x: ran.append(x))
    with held(elsewhere, clock.now()) if url.startswith("sqlite") else nullcontext():
        drain(elsewhere)
        app.create_trigger("on_event", "a.b", kind="sort", payload={"x": "{{event.x}}"})
        app.create_schedule("nightly", "0 3 * * *", kind="sort", payload={"x": 5}, tz="UTC")
        app.emit("a.b", {"x": 7})
        drain(app)
        clock.advance(timedelta(days=1))
        drain(app)
        assert sorted((job.train, job.partition) for job in app.jobs(kind="sort")) == [("t5", "p5"), ("t7", "p7")]
    elsewhere.close()


def test_an_event_of_two_pools_is_handled_by_both(app: Headway, url: str, ran: list[Any]) -> None:
    other = Headway(url)

    def made_by_code(kind: str) -> Any:
        def make(x: int) -> None:
            ran.append((kind, x))

        return make

    app.job(name="ka", partition=str_of_x)(made_by_code("ka"))
    other.job(name="kb", partition=str_of_x)(made_by_code("kb"))
    drain(app)
    drain(other)
    for name in ("ka", "kb"):
        app.create_trigger(name, "a.b", kind=name, payload={"x": "{{event.x}}"})
    app.create_trigger("unwanted", "a.b", kind="ka", when={"event.x": 0}, payload={"x": "{{event.x}}"})
    event_id = app.emit("a.b", {"x": 7})
    drain(app)
    assert (app.get_event(event_id).status, ran) == ("pending", [("ka", 7)])
    drain(app)
    drain(other)
    assert (app.get_event(event_id).status, ran) == ("handled", [("ka", 7), ("kb", 7)])
    other.close()


def test_an_event_whose_kind_nobody_knows_any_more_fails_after_a_while(
    app: Headway, url: str, clock: Any, ran: list[Any], sync: Any
) -> None:
    gone = Headway(url)
    gone.job(name="retired", partition=str_of_x)(lambda x: None)
    with held(gone, NOON) if url.startswith("sqlite") else nullcontext():
        drain(gone)
    gone.close()
    resync(app)
    app.create_trigger("retired", "provider.folder.updated", kind="retired", payload={"x": 1})
    event_id = app.emit("provider.folder.updated", {"folder": "good"})
    drain(app)
    assert (ran, app.get_event(event_id).status) == ([("good", None)], "pending")
    clock.advance(timedelta(minutes=10))
    drain(app)
    event = app.get_event(event_id)
    assert event.status == "failed"
    assert 'retired: the keys (partition) of "retired" are made by its code' in (event.error or "")
    assert ran == [("good", None)]


def test_a_dedupe_key_says_what_is_the_same(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, dedupe_key="{{event.provider}}")
    for provider, folder in [("p1", "a"), ("p1", "b"), ("p2", "a")]:
        app.emit("provider.folder.updated", {"provider": provider, "folder": folder})
    drain(app)
    assert ran == [("a", None), ("a", None)]


def test_without_a_window_every_event_counts(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, dedupe_window=0)
    for _ in range(3):
        app.emit("provider.folder.updated", {"folder": "a"})
    drain(app)
    assert len(ran) == 3


def test_a_trigger_that_cannot_fire_keeps_its_error_on_the_event_until_it_is_retried(
    app: Headway, call: Call, ran: list[Any], sync: Any
) -> None:
    resync(app)
    app.create_trigger(
        "second", "provider.folder.updated", kind="sync", payload={"folder": "fixed"}, dedupe_key="always"
    )
    wrong_path = call(app, "emit", "provider.folder.updated", {"map": "x"})
    wrong_type = call(app, "emit", "provider.folder.updated", {"folder": "x" * 21})
    drain(app)
    assert ran == [("fixed", None)]  # the second one is deduped
    event = call(app, "get_event", wrong_path)
    assert event.status == "failed"
    assert "resync: $.folder: {{event.folder}} leads nowhere: event has map" in event.error
    assert "does not fit the schema at $.folder" in call(app, "get_event", wrong_type).error
    assert [each.id for each in call(app, "events", status="failed")] == [wrong_type, wrong_path]
    call(app, "change_trigger", "resync", payload={"folder": "{{event.map}}"})
    call(app, "retry_event", wrong_path)
    assert call(app, "retry_events", [wrong_type, new_id()]) == [wrong_type]
    drain(app)
    assert ran == [("fixed", None), ("x", None)]
    assert call(app, "get_event", wrong_path).status == "handled"
    assert call(app, "get_event", wrong_type).status == "failed"
    with pytest.raises(NotAllowed, match="handled"):
        call(app, "retry_event", wrong_path)
    with pytest.raises(NotFound, match="no event"):
        call(app, "retry_event", new_id())


def test_a_rehearsal_shows_what_would_come_of_an_event(app: Headway, call: Call, sync: Any) -> None:
    resync(app, when={"event.ok": True})
    assert not call(app, "test_trigger", "resync", {"folder": "x"}).met
    shown = call(app, "test_trigger", "resync", {"folder": "x", "ok": True, "note": [1]})
    assert (shown.met, shown.kind, shown.queue, shown.error) == (True, "sync", "default", None)
    assert shown.payload == {"folder": "x", "note": [1]}
    assert "leads nowhere" in call(app, "test_trigger", "resync", {"ok": True}).error
    assert "schema" in call(app, "test_trigger", "resync", {"ok": True, "folder": "x" * 30}).error
    assert not call(app, "test_trigger", "resync", {"folder": "x", "ok": True}, event="another.one").met
    unsaved = {"kind": "sync", "payload": {"folder": "{{event.map}}"}, "when": {"event.ok": True}}
    shown = call(app, "preview_trigger", "new", "folder.seen", {"map": "y", "ok": True}, **unsaved)
    assert (shown.met, shown.kind, shown.payload) == (True, "sync", {"folder": "y"})
    assert not call(app, "preview_trigger", "new", "folder.seen", {"map": "y"}, **unsaved).met
    assert "leads nowhere" in call(app, "preview_trigger", "new", "folder.seen", {"ok": True}, **unsaved).error
    call(app, "create_template", "seen", "sync", {"folder": "z"})
    assert call(app, "preview_trigger", "new", "folder.seen", template="seen").payload == {"folder": "z"}
    with pytest.raises(NotFound, match='no template "other"'):
        call(app, "preview_trigger", "new", "folder.seen", template="other")
    assert [each.name for each in app.triggers()] == ["resync"]
    for where, names in (
        ({"event": ("provider.folder.updated", "none")}, ["resync"]),
        ({"event": {"none", "nor this"}}, []),
        ({"type": ("event", "schedule")}, ["resync"]),
        ({"type": ["schedule"]}, []),
    ):
        assert [each.name for each in call(app, "triggers", **where)] == names, where
    with pytest.raises(InvalidJob, match="type='other' does not exist: use event, schedule or any"):
        app.triggers(type=("event", "other"))
    with pytest.raises(InvalidJob, match="event has no value: leave it out for any"):
        app.triggers(event=())
    assert app.events() == []
    assert app.jobs() == []


def test_a_trigger_is_disabled_enabled_changed_and_deleted(app: Headway, call: Call, ran: list[Any], sync: Any) -> None:
    resync(app)
    call(app, "disable_trigger", "resync")
    call(app, "emit", "provider.folder.updated", {"folder": "off"})
    drain(app)
    call(app, "enable_trigger", "resync")
    call(app, "emit", "provider.folder.updated", {"folder": "on"})
    drain(app)
    assert ran == [("on", None)]
    changed = call(app, "change_trigger", "resync", event="provider.moved", when={"event.x": 1}, new_name="moved")
    assert (changed.event, changed.when, changed.name) == ("provider.moved", {"event.x": 1}, "moved")
    assert [each.name for each in call(app, "triggers", event="provider.moved")] == ["moved"]
    with pytest.raises(Duplicate, match="moved"):
        call(app, "create_trigger", "moved", "x.y", kind="sync")
    call(app, "delete_trigger", "moved")
    assert call(app, "triggers") == []


@pytest.mark.parametrize(
    "mistake",
    [
        {"kind": None},
        {"template": "none"},
        {"payload": {"folder": "{{schedule.name}}"}},
        {"payload": {"folder": "{{event.folder"}},
        {"payload": ["folder"]},
        {"when": {"event.a b": 1}},
        {"when": {"tenant": 1}},
        {"dedupe_key": "{{nothing}}"},
        {"dedupe_window": "soon"},
        {"dedupe_window": "8d"},
        {"event": "headway.job.ded"},
        {"payload": {"folder": "{{trigger.nothing}}"}},
        {"options": {"conn": 1}},
        {"options": {"priority": "high"}},
    ],
)
def test_a_trigger_that_cannot_work_is_refused(app: Headway, sync: Any, mistake: dict[str, Any]) -> None:
    with pytest.raises((InvalidJob, NotFound, InvalidPayload)):
        resync(app, **mistake)
    assert app.triggers() == []


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("", {}),
        ("a b", {}),
        ("headway.job.dead", {}),
        (7, {}),
        ("a.b", float("nan")),
        ("a.b", "x" * 2_000_000),
        ("a.b", "\0"),
    ],
)
def test_an_event_that_cannot_be_kept_is_refused(app: Headway, call: Call, name: Any, payload: Any) -> None:
    with pytest.raises((InvalidJob, InvalidPayload)):
        call(app, "emit", name, payload)
    assert app.events() == []


def test_hostile_events_never_stop_the_others(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, dedupe_window=0)
    deep: Any = "x"
    for _ in range(60):
        deep = [deep]
    hostile = [None, [], "{{event.folder}}", 7, {"folder": deep}, {"folder": None}, {"folder": {"__class__": 1}}]
    hostile += [{"folder": "{{event}}"}, {"folder": "x" * 500_000}, {"__class__": "x"}, {"folder": 1e300}]
    ids = [app.emit("provider.folder.updated", payload) for payload in hostile]
    app.emit("provider.folder.updated", {"folder": "good", "note": "{{event.__class__}}"})
    drain(app)
    assert ran == [("{{event}}", None), ("good", "{{event.__class__}}")]
    events = [app.get_event(each) for each in ids]
    assert [event.status for event in events].count("failed") == 10
    assert all(len(event.error or "") < 4_000 for event in events)


def test_what_only_sql_can_write_harms_nobody_else(app: Headway, url: str, ran: list[Any], sync: Any) -> None:
    """A payload that Python cannot read: it fails, with the reason, and the others are handled."""
    resync(app, dedupe_window=0)
    before = app.emit("provider.folder.updated", {"folder": "before"})
    ids = [app.emit("provider.folder.updated", {"folder": "x"}) for _ in range(3)]
    app.emit("provider.folder.updated", {"folder": "after"})
    for event_id, text in zip(
        ids, ['{"folder": 1e400}', '{"folder": "\\ud800"}', "[" * 3_000 + "]" * 3_000], strict=True
    ):
        if url.startswith("postgresql"):
            with psycopg.connect(url, autocommit=True) as conn:
                conn.execute("update headway.events set payload = %s::json where id = %s", (text, event_id))
        else:
            conn = apsw.Connection(url[len("sqlite:///") :])
            conn.execute("pragma ignore_check_constraints = on")
            conn.execute("update events set payload = ? where id = ?", (text, event_id))
            conn.close()
    drain(app)
    assert ran == [("before", None), ("after", None)]
    for event_id in ids:
        event = app.get_event(event_id)
        assert (event.status, bool(event.error)) == ("failed", True)
    assert app.get_event(before).status == "handled"
    assert len(app.events()) == 5


def test_an_event_is_part_of_the_callers_transaction(app: Headway, url: str, ran: list[Any], sync: Any) -> None:
    resync(app)
    conn: Any = (
        psycopg.connect(url, autocommit=True)
        if url.startswith("postgresql")
        else apsw.Connection(url[len("sqlite:///") :])
    )
    conn.execute("begin")
    app.emit("provider.folder.updated", {"folder": "undone"}, conn=conn)
    conn.execute("rollback")
    conn.execute("begin")
    app.emit("provider.folder.updated", {"folder": "done"}, conn=conn)
    assert app.events() == []
    conn.execute("commit")
    conn.close()
    drain(app)
    assert ran == [("done", None)]


def test_events_go_to_the_triggers_of_their_own_tenant(app: Headway, ran: list[Any], sync: Any) -> None:
    acme = app.tenant("acme")
    resync(acme, payload={"folder": "{{meta.tenant}}"})
    app.emit("provider.folder.updated", {})
    app.emit("provider.folder.updated", {}, tenant="globex")
    mine = acme.emit("provider.folder.updated", {})
    drain(app)
    assert ran == [("acme", None)]
    assert [event.id for event in acme.events()] == [mine]
    assert len(app.events()) == 3
    assert app.tenant("globex").triggers() == []
    with pytest.raises(NotFound):
        app.tenant("globex").get_event(mine)


def test_the_end_of_a_job_is_an_event_of_its_own(app: Headway, ran: list[Any], sync: Any) -> None:
    @app.job(max_attempts=1)
    def notify(job_id: str, kind: str, error: str | None, status: str) -> None:
        ran.append((kind, status, error))
        raise RuntimeError("and this fails too")

    for status in ("dead", "succeeded", "canceled"):
        app.create_trigger(
            f"on_{status}",
            f"headway.job.{status}",
            kind="notify",
            payload={name: f"{{{{event.{name}}}}}" for name in ("job_id", "kind", "error", "status")},
            dedupe_window=0,
        )
    sync.enqueue(folder="bad")
    sync.enqueue(folder="good")
    app.cancel(sync.using(delay="1h").enqueue(folder="later").id)
    drain(app)
    ends = sorted(end for end in ran if len(end) == 3)
    assert ends == [("sync", "canceled", "canceled"), ("sync", "dead", "LookupError: bad"), ("sync", "succeeded", None)]
    # the reactions died as well, and nobody reacts to that
    assert len(app.events()) == 3
    assert app.counts()["dead"] == 4


def test_a_worker_hears_at_once_of_what_is_emitted_in_its_process(app: Headway, ran: list[Any], sync: Any) -> None:
    app.configure(promote_every="1h")
    resync(app)

    async def run() -> None:
        worker = asyncio.create_task(app.arun())
        async with asyncio.timeout(60):
            while not await app.aworkers():
                await asyncio.sleep(0.01)
            await app.aemit("provider.folder.updated", {"folder": "now"})
            while not ran:
                await asyncio.sleep(0.01)
        worker.cancel()
        await asyncio.wait([worker])
        await app.aclose()

    asyncio.run(run())
    assert ran == [("now", None)]


def test_events_that_nobody_wants_hold_up_nobody(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app)
    app.emit_many(app.build_event("nobody.listens", {"n": n}) for n in range(350))
    app.emit("provider.folder.updated", {"folder": "wanted"})
    app.run(until_idle=True)
    assert ran == [("wanted", None)]
    assert app.events(status="pending") == []


def test_events_of_tenants_in_turn_are_all_handled(app: Headway, sync: Any) -> None:
    """A look whose parts are not all used is no sign that nothing is left."""
    app.tenant("acme").emit_many(app.tenant("acme").build_event("nobody.listens", {"n": n}) for n in range(350))
    app.emit("nobody.listens")
    app.run(until_idle=True)
    assert app.events(status="pending") == []


def test_more_events_than_one_look_takes_are_all_handled(app: Headway, ran: list[Any], sync: Any) -> None:
    resync(app, dedupe_window=0)
    app.emit_many(app.build_event("provider.folder.updated", {"folder": str(n)}) for n in range(500))
    drain(app, concurrency=50)
    assert sorted(int(folder) for folder, _ in ran) == list(range(500))
