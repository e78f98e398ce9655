"""API keys: stored, listed, found, revoked; the secret itself is nowhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headway.errors import HeadwayError, InvalidJob
from headway.model.access import NewApiKey
from headway.model.key_text import new_key
from tests.tenant_ids import tenant_id


def key(**fields: Any) -> NewApiKey:
    made = new_key()
    values: dict[str, Any] = {"id": made.id, "secret_hash": made.secret_hash, "name": "shop", "role": "superadmin"}
    return NewApiKey(**values | fields)


def test_every_field_of_a_key_is_stored(db):
    new = key(
        role="operator",
        mode="test",
        tenant_id=tenant_id("acme"),
        queues=("mail", "post"),
        kinds=("invoice",),
        expires_at=db.after(60_000),
    )
    made = db.run(db.ops.create_key(new, actor="ada"))
    assert msgspec.structs.asdict(made) == {
        "id": new.id,
        "name": "shop",
        "role": "operator",
        "mode": "test",
        "tenant_id": tenant_id("acme"),
        "queues": ("mail", "post"),
        "kinds": ("invoice",),
        "created_at": db.now(),
        "created_by": "ada",
        "expires_at": db.after(60_000),
        "last_used_at": None,
        "revoked_at": None,
        "revoked_by": None,
    }
    found = db.run(db.ops.find_key(new.id))
    assert (found.key, found.secret_hash) == (made, new.secret_hash)
    assert db.run(db.ops.find_key(new_key().id)) is None


def test_a_key_made_again_is_the_same_key_and_another_cannot_take_its_id(db):
    new = key()
    made = db.run(db.ops.create_key(new, actor="ada"))
    assert db.run(db.ops.create_key(new, actor="ada")) == made
    with pytest.raises(InvalidJob, match=f"key id {new.id} is taken"):
        db.run(db.ops.create_key(key(id=new.id), actor="eve"))
    assert [each.actor for each in _audited(db)] == ["ada"]


def test_keys_are_listed_per_tenant_oldest_first(db):
    for name, tenant in (("first", "acme"), ("second", "other"), ("third", "acme")):
        db.run(db.ops.create_key(key(name=name, role="admin", tenant_id=tenant_id(tenant)), actor=None))
        db.advance("1s")
    db.run(db.ops.create_key(key(name="root"), actor=None))
    assert [each.name for each in db.run(db.ops.keys(tenant_id=None))] == ["first", "second", "third", "root"]
    assert [each.name for each in db.run(db.ops.keys(tenant_id=tenant_id("acme")))] == ["first", "third"]


def test_a_key_is_revoked_once_and_by_its_own_tenant_only(db):
    new = key(role="admin", tenant_id=tenant_id("acme"))
    db.run(db.ops.create_key(new, actor=None))
    assert db.run(db.ops.revoke_key(new.id, tenant_id=tenant_id("other"), actor="eve")) is None
    assert db.run(db.ops.find_key(new.id)).key.is_valid(db.now())
    revoked = db.run(db.ops.revoke_key(new.id, tenant_id=tenant_id("acme"), actor="ada"))
    assert (revoked.revoked_at, revoked.revoked_by, revoked.is_valid(db.now())) == (db.now(), "ada", False)
    db.advance("1s")
    assert db.run(db.ops.revoke_key(new.id, tenant_id=None, actor="bob")) == revoked
    assert [(each.action, each.actor, each.detail) for each in _audited(db)] == [
        ("key.created", None, f"{new.id} (shop): admin"),
        ("key.revoked", "ada", f"{new.id} (shop)"),
    ]


def test_a_key_ends_with_its_expiry(db):
    new = key(expires_at=db.after(1_000))
    made = db.run(db.ops.create_key(new, actor=None))
    assert made.is_valid(db.now())
    assert not made.is_valid(db.now() + timedelta(seconds=1))


def test_the_last_use_only_moves_on(db):
    one, two = key(), key()
    for new in (one, two):
        db.run(db.ops.create_key(new, actor=None))
    later = db.after(60_000)
    db.run(db.ops.touch_keys({one.id: later, new_key().id: later}))
    db.run(db.ops.touch_keys({one.id: db.now(), two.id: db.now()}))
    used = {each.id: each.last_used_at for each in db.run(db.ops.keys(tenant_id=None))}
    assert used == {one.id: later, two.id: db.now()}


def _audited(db: Any) -> list[Any]:
    log = db.run(db.ops.audit_log(tenant_id=None, actor=None, action=None, limit=10, before=None))
    return list(reversed(log))


def test_only_keys_above_tenants_have_none(db):
    """Checked by the table: a login of one tenant may call the function that stores keys."""
    for role, tenant in (("superadmin", tenant_id("acme")), ("admin", None)):
        with pytest.raises(HeadwayError):
            db.run(db.ops.create_key(key(role=role, tenant_id=tenant), actor=None))
    assert db.run(db.ops.keys(tenant_id=None)) == []
