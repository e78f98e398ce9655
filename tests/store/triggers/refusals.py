"""What both stores refuse about definitions, connectors, templates, triggers, fires and events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.store.refusal_cases import ACME, A, B, C, D
from tests.store.triggers.trigger_calls import (
    firing,
    handling,
    job_of,
    new_event,
    new_fire,
    new_listener,
    new_schedule,
)

BEFORE = datetime(1969, 12, 31, tzinfo=UTC)
AFTER = datetime(9001, 1, 1, tzinfo=UTC)
DEEP = '{"a":' * 70 + "1" + "}" * 70

# connectors


def a_connector_whose_name_is_taken(db: Any) -> None:
    db.connector(id=A, name="shop")
    db.connector(id=B, name="shop")


def a_connector_renamed_to_a_name_that_is_taken(db: Any) -> None:
    db.connector(id=A, name="shop")
    db.connector(id=B, name="mall")
    db.change_connector(B, name="shop")


def a_connector_id_that_another_tenant_has(db: Any) -> None:
    db.connector(id=A, name="shop", tenant="acme")
    db.connector(id=A, name="shop")


def a_connector_whose_headers_are_no_object(db: Any) -> None:
    db.connector(id=A, name="shop", headers="[1]")


def a_connector_whose_events_are_no_array(db: Any) -> None:
    db.connector(id=A, name="shop", events="{}")


def a_connector_changed_for_a_revision_that_is_over(db: Any) -> None:
    db.connector(id=A, name="shop")
    db.change_connector(A, url="https://b.example")
    db.change_connector(A, url="https://c.example", of_revision=1)


def a_connector_whose_old_secret_ends_too_late(db: Any) -> None:
    db.connector(id=A, name="shop")
    db.change_connector(A, old_secret_ends_at=AFTER)


# templates


def a_template_whose_name_is_taken(db: Any) -> None:
    db.template(id=A, name="nightly")
    db.template(id=B, name="nightly")


def a_template_renamed_to_a_name_that_is_taken(db: Any) -> None:
    db.template(id=A, name="nightly")
    db.template(id=B, name="weekly")
    db.change_template(B, name="nightly")


def a_template_id_that_another_tenant_has(db: Any) -> None:
    db.template(id=A, name="nightly", tenant="acme")
    db.template(id=A, name="nightly")


def a_template_whose_payload_is_no_object(db: Any) -> None:
    db.template(id=A, name="nightly", payload="[1]")


def a_template_whose_options_are_no_object(db: Any) -> None:
    db.template(id=A, name="nightly", options="7")


def a_template_whose_payload_is_too_deep(db: Any) -> None:
    db.template(id=A, name="nightly", payload=DEEP)


def a_template_whose_payload_has_a_number_that_is_too_large(db: Any) -> None:
    db.template(id=A, name="nightly", payload='{"a": 1e999}')


def a_template_whose_payload_is_no_json(db: Any) -> None:
    db.template(id=A, name="nightly", payload='{"a": ')


def a_template_changed_to_a_payload_that_is_no_object(db: Any) -> None:
    db.template(id=A, name="nightly")
    db.change_template(A, payload="[1]")


def a_template_changed_to_options_that_are_too_deep(db: Any) -> None:
    db.template(id=A, name="nightly")
    db.change_template(A, options=DEEP, name="weekly")


def a_template_that_is_used(db: Any) -> None:
    db.template(id=A, name="nightly")
    db.schedule(id=B, name="at-two", template_id=A)
    db.listener("paid", id=C, name="on-paid", template_id=A)
    db.delete_template(A)


def a_template_that_is_used_by_many(db: Any) -> None:
    db.template(id=A, name="nightly")
    for name in ("d", "c", "b", "a"):
        db.schedule(name=name, template_id=A)
    db.delete_template(A)


# triggers


def a_schedule_whose_name_is_taken(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.schedule(id=B, name="nightly")


def a_listener_whose_name_is_taken(db: Any) -> None:
    db.listener("paid", id=A, name="nightly")
    db.listener("paid", id=B, name="nightly")


def a_schedule_renamed_to_a_name_that_is_taken(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.schedule(id=B, name="weekly")
    db.change_trigger(B, name="nightly")


def a_listener_renamed_to_a_name_that_is_taken(db: Any) -> None:
    db.listener("paid", id=A, name="nightly")
    db.listener("paid", id=B, name="weekly")
    db.change_trigger(B, name="nightly")


def a_trigger_id_that_another_tenant_has(db: Any) -> None:
    db.schedule(id=A, name="nightly", tenant="acme")
    db.schedule(id=A, name="nightly")


def a_trigger_with_a_template_that_is_not_there(db: Any) -> None:
    db.schedule(id=A, name="nightly", template_id=B)


def a_trigger_with_a_template_of_another_tenant(db: Any) -> None:
    db.template(id=B, name="nightly", tenant="acme")
    db.schedule(id=A, name="nightly", template_id=B)


def a_trigger_changed_to_a_template_that_is_not_there(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, kind=None, template_id=B)


def a_trigger_that_was_changed_meanwhile(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, description="first")
    db.change_trigger(A, of_revision=1, description="second")


def a_listener_that_was_changed_meanwhile(db: Any) -> None:
    db.listener("paid", id=A, name="on-paid")
    db.change_trigger(A, of_revision=3, description="second")


def a_trigger_without_kind_and_template(db: Any) -> None:
    db.schedule(id=A, name="nightly", kind=None)


def a_trigger_with_kind_and_template(db: Any) -> None:
    db.template(id=B, name="nightly")
    db.schedule(id=A, name="nightly", kind="mail", template_id=B)


def a_trigger_changed_to_kind_and_template(db: Any) -> None:
    db.template(id=B, name="nightly")
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, template_id=B)


def a_schedule_with_cron_and_every(db: Any) -> None:
    db.schedule(id=A, name="nightly", cron="0 2 * * *", every_ms=60_000)


def a_schedule_without_cron_and_every(db: Any) -> None:
    db.schedule(id=A, name="nightly", cron=None)


def a_schedule_changed_to_cron_and_every(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, every_ms=60_000)


def a_listener_without_an_event(db: Any) -> None:
    db.create_trigger(msgspec.structs.replace(new_listener("paid", id=A, name="on-paid"), event=None))


def a_trigger_of_another_type(db: Any) -> None:
    db.create_trigger(new_schedule(id=A, name="nightly", type="other"))


def another_way_to_catch_up(db: Any) -> None:
    db.schedule(id=A, name="nightly", catch_up="some")


def a_change_to_another_overlap(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, overlap="some")


def every_that_is_too_short(db: Any) -> None:
    db.schedule(id=A, name="nightly", every_ms=999)


def every_that_is_too_long(db: Any) -> None:
    db.schedule(id=A, name="nightly", every_ms=3_162_240_000_001)


def a_change_to_every_that_is_too_short(db: Any) -> None:
    db.schedule(id=A, name="nightly", every_ms=60_000)
    db.change_trigger(A, every_ms=0)


def a_negative_catch_up_window(db: Any) -> None:
    db.schedule(id=A, name="nightly", catch_up_window_ms=-1)


def a_negative_jitter(db: Any) -> None:
    db.schedule(id=A, name="nightly", jitter_ms=-1)


def a_negative_dedupe_window(db: Any) -> None:
    db.listener("paid", id=A, name="on-paid", dedupe_window_ms=-1)


def a_start_before_1970(db: Any) -> None:
    db.schedule(id=A, name="nightly", start_at=BEFORE)


def an_end_after_9000(db: Any) -> None:
    db.schedule(id=A, name="nightly", end_at=AFTER)


def a_change_to_an_end_after_9000(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, end_at=AFTER)


def a_schedule_whose_payload_is_no_object(db: Any) -> None:
    db.schedule(id=A, name="nightly", payload="[1]")


def a_listener_whose_when_is_too_deep(db: Any) -> None:
    db.listener("paid", id=A, name="on-paid", when=DEEP)


def a_trigger_changed_to_options_that_are_no_object(db: Any) -> None:
    db.schedule(id=A, name="nightly")
    db.change_trigger(A, options="7")


def more_schedules_than_max_schedules(db: Any) -> None:
    db.limit("tenant", "*", max_schedules=1)
    db.schedule(id=A, name="nightly")
    db.listener("paid", id=B, name="on-paid")


def a_tenant_of_a_template_whose_name_is_anothers(db: Any) -> None:
    db.template(id=A, name="nightly", tenant="acme")
    db.template(id=B, name="weekly", tenant="acme", tenant_id=C)


# what the code declares


def a_declared_schedule_whose_payload_is_no_object(db: Any) -> None:
    db.declare(new_schedule(id=A, name="nightly", payload="[1]"))


def a_declared_schedule_whose_every_is_too_short(db: Any) -> None:
    db.declare(new_schedule(id=A, name="nightly", every_ms=1))


def a_declared_schedule_that_ends_after_9000(db: Any) -> None:
    db.declare(new_schedule(id=A, name="nightly", end_at=AFTER))


def a_declared_change_to_every_that_is_too_short(db: Any) -> None:
    db.declare(new_schedule(id=A, name="nightly", every_ms=60_000))
    db.declare(new_schedule(id=A, name="nightly", every_ms=1))


# fires


def a_schedule_that_is_due_again_after_9000(db: Any) -> None:
    made = db.schedule(id=A, name="nightly")
    db.fire(firing(made, db.now(), next_fire_at=AFTER))


def a_fire_for_a_time_before_1970(db: Any) -> None:
    made = db.schedule(id=A, name="nightly")
    db.fire(firing(made, BEFORE, next_fire_at=None))


def a_backfill_of_a_time_to_come(db: Any) -> None:
    made = db.schedule(id=A)
    db.backfill(made, new_fire(made, db.after(1_000)))


def a_fire_whose_kind_is_not_active(db: Any) -> None:
    made = db.schedule(id=A, name="nightly")
    db.change_definition("mail", active=False)
    db.fire_now(made)


def a_fire_whose_key_is_taken(db: Any) -> None:
    made = db.schedule(id=A, name="nightly")
    db.enqueue(id=B, unique_key="k")
    db.run_trigger(new_fire(made, job=job_of(made, unique_key="k", on_conflict="raise")))


def a_fire_whose_job_would_be_over_max_pending(db: Any) -> None:
    made = db.listener("paid", id=A, name="on-paid")
    event = db.emit("paid")
    db.limit("tenant", "*", max_pending=0)
    db.handle(handling(event, made))


# events


def a_secret_in_an_event(db: Any) -> None:
    db.emit("paid", {"$secret": "KEY"})


def an_event_of_the_engine(db: Any) -> None:
    db.emit_all([new_event("paid"), new_event("headway.job.dead")])


def an_event_id_that_another_tenant_has(db: Any) -> None:
    db.emit("paid", id=A, tenant="acme")
    db.emit("paid", id=A)


def more_events_than_max_events(db: Any) -> None:
    db.limit("tenant", "*", max_events=2)
    db.emit("paid", id=A)
    db.emit_all([new_event("paid", id=B), new_event("paid", id=C)])


def more_events_than_max_events_beside_a_repeat(db: Any) -> None:
    db.limit("tenant", "*", max_events=2)
    db.emit_all([new_event("paid", id=A), new_event("paid", id=B)])
    db.emit_all([new_event("paid", id=A), new_event("paid", id=C)])


def more_events_than_max_events_beside_another_tenants(db: Any) -> None:
    db.limit("tenant", ACME, max_events=1)
    db.emit("paid", id=A, tenant="acme")
    db.emit_all([new_event("paid", id=B), new_event("paid", id=C, tenant="acme"), new_event("paid", id=D)])


# the bounds of a definition


def a_definition_that_lets_enqueuers_set_what_is_no_option(db: Any) -> None:
    db.change_definition("mail", enqueuer_may='{"timeout": 5, "colour": true}')


def a_definition_whose_bound_is_none(db: Any) -> None:
    db.change_definition("mail", enqueuer_may='{"queue": true, "timeout": "5m"}')
