"""Connectors' configurations: stored in one tenant under a name, changed by revision, without any secret in them."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from headway.errors import Duplicate, NotAllowed
from tests.store.triggers.trigger_calls import new_connector, own_transaction
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


@pytest.mark.parametrize("store", ["sqlite", "sqlite-stdlib", "postgres"], indirect=True)
def test_every_field_of_a_connector_is_stored_and_changed(db):
    new = new_connector(
        tenant="acme",
        name="shop_1.A:b/c-d",
        kind="connector.webhook.deliver",
        url="https://shop.example/hook",
        headers='{"x-shop": "7", "authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}',
        options='{"timeout": "5s", "a": {"b": 1}}',
        events='["order.*", "headway.job.dead"]',
        description="text-1",
        enabled=False,
        created_by="ann-2",
    )
    made_at = db.now()
    first = db.run(db.ops.create_connector(new, actor="ann"))
    assert msgspec.structs.asdict(first) == {
        "id": new.id,
        "tenant_id": ACME,
        "tenant": "acme",
        "name": "shop_1.A:b/c-d",
        "kind": "connector.webhook.deliver",
        "url": "https://shop.example/hook",
        "headers": {"x-shop": "7", "authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]},
        "options": {"timeout": "5s", "a": {"b": 1}},
        "events": ["order.*", "headway.job.dead"],
        "description": "text-1",
        "enabled": False,
        "disabled_reason": None,
        "secret_version": 1,
        "old_secret_ends_at": None,
        "revision": 1,
        "created_by": "ann-2",
        "created_at": made_at,
        "updated_at": made_at,
    }
    db.advance("1m")
    assert db.run(db.ops.create_connector(new, actor="ann")) == first
    ends = made_at + timedelta(days=1)
    changes = {
        "name": "mall",
        "url": "https://mall.example",
        "description": "text-2",
        "enabled": True,
        "disabled_reason": "410",
        "secret_version": 2,
        "old_secret_ends_at": ends,
    }
    objects = {"headers": '{"x": "y"}', "options": '{"z": 1}', "events": "[]"}
    changed = db.change_connector(new.id, actor="bob", of_revision=1, **changes, **objects)
    expected = changes | {"headers": {"x": "y"}, "options": {"z": 1}, "events": []}
    expected |= {"revision": 2, "updated_at": db.now()}
    assert msgspec.structs.asdict(changed) == msgspec.structs.asdict(first) | expected
    assert db.change_connector(new.id, old_secret_ends_at=None).old_secret_ends_at is None
    assert db.change_connector(new.id, tenant_id=BETA, url="https://evil.example") is None
    assert not db.delete_connector(new.id, tenant_id=BETA)
    assert db.delete_connector(new.id, tenant_id=ACME, actor="eve")
    assert not db.delete_connector(new.id)
    assert db.audited() == [
        ("ann", "connector.created"),
        ("bob", "connector.changed"),
        (None, "connector.changed"),
        ("eve", "connector.deleted"),
    ]


def test_names_are_a_tenants_own_and_lists_have_pages(db):
    ours = [db.connector(tenant="acme", name=f"n{number}") for number in range(3)]
    with pytest.raises(Duplicate), own_transaction(db) as run:
        run(db.ops.create_connector(new_connector(tenant="acme", name="n1"), actor=None))
    theirs = db.connector(tenant="beta", name="n1", kind="connector.webhook.deliver")
    assert [each.id for each in db.connectors(tenant_id=ACME)] == [each.id for each in ours]
    assert [each.id for each in db.connectors(name="n1")] == [ours[1].id, theirs.id]
    assert [each.id for each in db.connectors(name="n1", tenant_id=BETA)] == [theirs.id]
    assert [each.id for each in db.connectors(kind="connector.webhook.deliver")] == [theirs.id]
    assert [each.id for each in db.connectors(limit=1, after=ours[0].id)] == [ours[1].id]
    assert [each.id for each in db.connectors([ours[2].id, theirs.id], tenant_id=ACME)] == [ours[2].id]
    with pytest.raises(NotAllowed, match="was changed meanwhile"):
        db.change_connector(ours[0].id, url="https://b.example", of_revision=7)
