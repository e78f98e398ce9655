"""Triggers that send signals, through the app: written, rehearsed, fired, changed and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid5

import pytest

from headway import Await, Context, Done, Headway, Machine, step
from headway.errors import InvalidJob, InvalidPayload
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def checkout(app: Headway) -> Any:
    @app.machine
    class Checkout(Machine):
        @step
        def start(self, ctx: Context) -> Any:
            return Await("payment", then=self.ship)

        @step
        def ship(self, ctx: Context) -> Any:
            return Done([signal.payload for signal in ctx.signals])

    return Checkout


def test_an_event_wakes_the_machine_that_it_names(app: Headway, call: Call, checkout: Any) -> None:
    trigger = call(
        app, "create_trigger", "paid", "order.paid", signal="payment", to="checkout:{{event.order}}", description="pays"
    )
    assert (trigger.signal, trigger.signal_to, trigger.kind) == ("payment", "checkout:{{event.order}}", None)
    call(
        app,
        "create_trigger",
        *("by-id", "order.settled"),
        signal="payment",
        to="{{event.job}}",
        payload={"cents": "{{event.cents}}"},
        dedupe_key="{{event.payment}}",
    )
    ours = checkout.using(unique_key="42").enqueue()
    theirs = app.tenant("acme").enqueue("checkout", {}, unique_key="42")
    other = checkout.using(unique_key="43").enqueue()
    drain(app)
    paid = call(app, "emit", "order.paid", {"order": 42, "amount": 100})
    for _ in range(2):
        call(app, "emit", "order.settled", {"job": other.id, "cents": 7, "payment": "p-1"})
    late = call(app, "emit", "order.paid", {"order": 44})
    drain(app)
    assert call(app, "result", ours.id).value == [{"order": 42, "amount": 100}]
    assert call(app, "result", other.id).value == [{"cents": 7}]
    assert app.get(theirs.id).status == "waiting"
    assert [fire.status for fire in call(app, "fires", event_id=paid)] == ["signaled"]
    assert sorted(fire.status for fire in call(app, "fires", trigger="by-id")) == ["deduped", "signaled"]
    (nobody,) = call(app, "fires", event_id=late)
    assert (nobody.status, nobody.job_id) == ("undelivered", None)
    assert nobody.error.startswith('no unfinished job of kind checkout has unique key "44"')
    assert call(app, "get_event", late).status == "handled"
    assert app.get_trigger("paid").last_job_id == ours.id
    # an event that two workers handle at once has one signal: its id is the same for both
    assert [signal.id for signal in app.signals(ours.id)] == [str(uuid5(UUID(trigger.id), paid))]


def test_what_cannot_be_rendered_fails_the_event_and_is_sent_by_its_retry(app: Headway, checkout: Any) -> None:
    app.create_trigger(
        "paid", "order.paid", signal="payment", to="{{event.job}}", payload={"cents": "{{event.cents?}}"}
    )
    job = checkout.enqueue()
    drain(app)
    event = app.emit("order.paid", {"job": "nobody"})
    unnamed = app.emit("order.paid", {})
    drain(app)
    failed = app.get_event(event)
    assert (failed.status, app.get_event(unnamed).status) == ("failed", "failed")
    assert "nobody" in (failed.error or "")
    app.change_trigger("paid", to="checkout:{{event.job}}")
    app.change_trigger("paid", to=job.id)
    app.retry_event(event)
    drain(app)
    assert app.result(job.id).value == [{"cents": None}]
    assert [signal.name for signal in app.signals(job.id)] == ["payment"]


def test_a_rehearsal_shows_the_signal(app: Headway, call: Call, checkout: Any) -> None:
    app.create_trigger(
        "paid", "order.paid", signal="payment", to="checkout:o-{{event.order}}", dedupe_key="{{event.id}}"
    )
    shown = call(app, "test_trigger", "paid", {"order": 7, "id": "e"})
    assert (shown.met, shown.signal, shown.to, shown.payload, shown.dedupe_key, shown.kind) == (
        *(True, "payment", "checkout:o-7", {"order": 7, "id": "e"}, "e"),
        None,
    )
    wrong = call(app, "test_trigger", "paid", {"id": "e"})
    assert (wrong.signal, wrong.to) == ("payment", "checkout:o-{{event.order}}")
    assert "event.order" in wrong.error


def test_a_trigger_sends_or_enqueues(app: Headway, checkout: Any) -> None:
    right: dict[str, Any] = {"signal": "payment", "to": "checkout:{{event.order}}"}
    for changed, error, words in (
        ({"to": None}, InvalidJob, "signal= and to= go together"),
        ({"signal": None}, InvalidJob, "signal= and to= go together"),
        ({"kind": "mail"}, InvalidJob, "it sends a signal or enqueues a job"),
        ({"options": {"queue": "mail"}}, InvalidJob, "options= are for jobs"),
        ({"dedupe_window": "5m"}, InvalidJob, "dedupe_window= is for jobs"),
        ({"to": "{{event.kind}}:{{event.order}}"}, InvalidJob, "names no machine: give its kind and its unique key"),
        ({"to": "checkout:"}, InvalidJob, "names no machine"),
        ({"to": "checkout:{{order}}"}, InvalidJob, "begins with none of event, trigger, meta"),
        ({"to": "a b:1"}, InvalidJob, "kind='a b' is not a valid name"),
        ({"signal": "a b"}, InvalidJob, "signal='a b' is not a valid name"),
        ({"payload": {"token": {"$secret": "TOKEN"}}}, InvalidPayload, "is a reference to a secret"),
    ):
        with pytest.raises(error, match=words):
            app.create_trigger("paid", "order.paid", **{**right, **changed})  # type: ignore[arg-type]
    app.create_trigger("paid", "order.paid", **right)  # type: ignore[arg-type]
    for changed, error, words in (
        ({"to": None}, InvalidJob, "signal= and to= go together"),
        ({"options": {"queue": "mail"}}, InvalidJob, "options= are for jobs"),
        ({"payload": {"token": {"$secret": "TOKEN"}}}, InvalidPayload, "is a reference to a secret"),
    ):
        with pytest.raises(error, match=words):
            app.change_trigger("paid", **changed)  # type: ignore[arg-type]
    made = app.change_trigger("paid", kind="mail")
    assert (made.kind, made.signal, made.signal_to) == ("mail", None, None)
    made = app.change_trigger("paid", **right)  # type: ignore[arg-type]
    assert (made.kind, made.signal, made.signal_to) == (None, "payment", "checkout:{{event.order}}")
    with pytest.raises(InvalidJob, match="a schedule has no option signal"):
        app.create_schedule("nightly", "@daily", kind="mail", signal="payment")  # type: ignore[call-arg]
