"""An open transaction on triggers, templates or events holds up nobody else."""

from __future__ import annotations

import pytest

from headway.errors import NotFound, StoreBusy
from headway.model.trigger import TriggerChange
from headway.store.ops import Op, Statement
from tests.store.store_marks import POSTGRES
from tests.store.triggers.trigger_calls import (
    firing,
    handling,
    job_of,
    new_event,
    new_fire,
    new_listener,
    new_schedule,
)


@pytest.fixture
def others(db):
    """A schedule and an event of somebody else, who must not wait: fires and handles them, and says that it went."""

    def go():
        made = db.schedule(tenant="beta")
        heard = db.listener("beta.paid", tenant="beta")
        event = db.emit("beta.paid", tenant="beta")
        due = db.due()
        plans = [firing(met.trigger, db.now(), next_fire_at=None) for met in due.schedules]
        events = [handling(each.event.id, *(met.trigger for met in each.triggers)) for each in due.events]
        assert made.id in {each.trigger_id for each in db.fire(*plans)}
        assert heard.id in {each.trigger_id for each in db.handle(*events)}
        assert db.event(event).status == "handled"

    return go


@POSTGRES
@pytest.mark.parametrize("what", ["change", "delete", "run", "lock", "template", "create", "emit", "retry"])
def test_an_open_transaction_holds_up_nobody_else(db, session, others, what):
    template = db.template(tenant="acme")
    mine = db.schedule(tenant="acme", template_id=template.id)
    listener = db.listener("paid", tenant="acme", template_id=template.id)
    failed = db.emit("paid", tenant="acme")
    db.handle(handling(failed, new_fire(listener, error="boom")))
    event = db.emit("paid", tenant="acme")
    open_ = session()
    change = TriggerChange(description="changed")
    for each in (mine, listener):
        match what:
            case "change":
                open_.run(db.ops.change_trigger(each.id, change, tenant_id=None, actor=None))
            case "delete":
                open_.run(db.ops.delete_trigger(each.id, tenant_id=None, actor=None))
            case "run":
                open_.run(db.ops.run_trigger(new_fire(each), tenant_id=None, actor=None))
            case "lock":
                open_.conn.execute("select from headway.triggers where id = %s for update", (each.id,))
            case "template":
                open_.conn.execute("select from headway.templates where id = %s for update", (template.id,))
            case "create":
                open_.run(db.ops.create_trigger(new_listener("paid", tenant="acme"), actor=None))
            case "emit":
                open_.run(db.ops.emit([new_event("paid", tenant="acme")]))
            case "retry":
                open_.run(db.ops.retry_events([failed, event], tenant_id=None, actor=None))
    others()
    held = what in ("change", "delete", "run", "lock")
    assert (db.trigger(mine.id).last_fired_at is None) == held
    assert db.event(event).status == ("pending" if held else "handled")
    open_.rollback()
    if held:
        assert db.due_ids() == [mine.id]
        assert db.heard() == {event: [listener.id]}


@POSTGRES
def test_an_event_row_that_is_held_is_left(db, session, others):
    db.listener("paid")
    event = db.emit("paid")
    open_ = session()
    open_.conn.execute("select from headway.events where id = %s for update", (event,))
    others()
    assert db.event(event).status == "pending"
    open_.rollback()
    assert list(db.heard()) == [event]


@POSTGRES
def test_a_key_that_is_held_is_a_busy_store_for_its_own_firing_only(db, session):
    """All or none: who wrote them together writes them one by one, and only the one that is held fails."""
    mine, theirs = db.schedule(), db.schedule()
    usual = db.store.run(_setting("lock_timeout"))
    open_ = session()
    open_.run(db.ops.enqueue([job_of(mine, unique_key="k")]))
    plans = [
        firing(mine, new_fire(mine, db.now(), job=job_of(mine, unique_key="k")), next_fire_at=None),
        firing(theirs, db.now(), next_fire_at=None),
    ]
    with pytest.raises(StoreBusy):
        db.fire(*plans)
    assert db.fires() == []
    with pytest.raises(StoreBusy):
        db.fire(plans[0])
    assert len(db.fire(plans[1])) == 1
    # the wait is the transaction's: the next on this connection waits as it did
    assert db.store.run(_setting("lock_timeout")) == usual
    open_.commit()
    (fire,) = db.fire(plans[0])
    assert fire.status == "deduped"


def _setting(name):
    def steps():
        return (yield Statement("select current_setting($1)", [name]))

    return Op(steps, writes=False)


@POSTGRES
def test_a_template_that_is_being_deleted_is_waited_for_by_who_points_at_it(db, session, until):
    template = db.template()
    deleter, creator = session(), session()
    deleter.run(db.ops.delete_template(template.id, tenant_id=None, actor=None))
    later = creator.start(db.ops.create_trigger(new_schedule(template_id=template.id), actor=None))
    until(lambda: creator.blocked() or later.done())
    deleter.commit()
    with pytest.raises(NotFound):
        later.result(60)
