"""API keys by the app's verbs, on both stores."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob, NotAllowed, NotFound
from headway.model.access import NewApiKey, check_no_wider
from headway.model.key_text import new_key, read_key


def test_a_key_is_shown_once_and_found_by_its_id(app: Headway) -> None:
    made = app.create_api_key("shop", "producer", tenant="acme", queues=["mail"], expires="90d", actor="ada")
    parts = read_key(made.text)
    assert parts is not None
    assert made.text.startswith("hw_live_")
    found = app.store.run(app.store.ops.find_key(parts.id))
    assert found.secret_hash == parts.secret_hash
    assert found.key == made.key == app.api_keys()[0]
    assert parts.secret not in str(app.api_keys())
    assert (made.key.queues, made.key.created_by) == (("mail",), "ada")


def test_a_key_whose_text_was_mistyped_is_none() -> None:
    text = new_key().text
    other = "A" if text[30] != "A" else "B"
    assert read_key(text) is not None
    for wrong in ("", text[:-1], text + "A", text[:30] + other + text[31:], text.replace("hw_", "hx_"), f"{text}\n"):
        assert read_key(wrong) is None


def test_whose_keys_they_are(app: Headway) -> None:
    acme = app.tenant("acme")
    of_acme = acme.create_api_key("one", "admin")
    worker = acme.create_api_key("two", "worker")
    assert worker.key.tenant_id == of_acme.key.tenant_id
    assert app.create_api_key("three", "worker").key.tenant_id is None
    root = app.create_api_key("four", "superadmin")
    assert root.key.tenant_id is None
    assert [key.name for key in acme.api_keys()] == ["one", "two"]
    assert [key.name for key in app.api_keys(tenant="acme")] == ["one", "two"]
    assert len(app.api_keys()) == 4
    with pytest.raises(NotFound, match=root.key.id):
        acme.revoke_api_key(root.key.id)
    with pytest.raises(InvalidJob, match="superadmin's key has no tenant"):
        acme.create_api_key("five", "superadmin")
    with pytest.raises(InvalidJob, match="superadmin's key has no tenant"):
        app.create_api_key("five", "superadmin", tenant="newcomer")
    assert "newcomer" not in [tenant.slug for tenant in app.tenants()], "a key that was refused makes no tenant"
    assert app.revoke_api_key(of_acme.key.id, actor="ada").revoked_by == "ada"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "1 to 100 characters"),
        ({"name": "a\x00b"}, "name"),
        ({"role": "root"}, "is not a role: use viewer"),
        ({"mode": "dead"}, "neither live nor test"),
        ({"queues": "mail"}, "a list of names"),
        ({"queues": ["Ma il"]}, "queue"),
        ({"kinds": [""]}, "kind"),
        ({"role": "superadmin", "queues": ["mail"]}, "narrow"),
        ({"expires": datetime.max}, "no time zone"),  # noqa: DTZ901
        ({"expires": datetime(2001, 1, 1, tzinfo=UTC)}, "over already"),
        ({"expires": "soon"}, "expires"),
    ],
)
def test_a_bad_key_is_refused_and_none_is_made(app: Headway, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        app.create_api_key(**{"name": "shop", "role": "viewer"} | options)
    assert app.api_keys() == []


@pytest.mark.parametrize("key_id", ["", "nonsense", "'; drop table jobs", "0123456789ab", None])
def test_an_unknown_key_is_not_found(app: Headway, key_id: Any) -> None:
    with pytest.raises(NotFound, match="no key"):
        app.revoke_api_key(key_id)


def test_no_key_makes_a_wider_one(app: Headway) -> None:
    acme = app.tenant("acme")
    admin, operator = acme.create_api_key("a", "admin").key, acme.create_api_key("o", "operator").key
    root = app.create_api_key("r", "superadmin").key

    def new(role: Any, tenant_id: str | None) -> NewApiKey:
        return NewApiKey(id="0123456789ab", secret_hash=b"", name="new", role=role, tenant_id=tenant_id)

    check_no_wider(admin, new("operator", admin.tenant_id))
    check_no_wider(root, new("superadmin", None))
    check_no_wider(root, new("admin", admin.tenant_id))
    for maker, made in (
        (operator, new("viewer", operator.tenant_id)),
        (admin, new("superadmin", None)),
        (admin, new("worker", None)),
        (admin, new("viewer", "another")),
    ):
        with pytest.raises(NotAllowed):
            check_no_wider(maker, made)
