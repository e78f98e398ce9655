"""Connectors' configurations through the app, the command line and the API, on both stores."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headway import Headway
from headway.errors import ChangedMeanwhile, Duplicate, InvalidJob, NotFound
from headway.model.event import covers

HOOK = "connector.webhook.deliver"


def test_a_configuration_is_created_read_changed_and_deleted(app: Headway, call: Any) -> None:
    headers = {"X-Account": "7", "Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}
    made = call(app, "create_connector", "shop", "HTTPS://Shop.Example:443/v1?a=b#c", headers=headers, actor="ann")
    # a URL is stored as it was understood
    assert (made.url, made.kind, made.headers) == ("https://shop.example/v1?a=b", "connector.http.request", headers)
    assert call(app, "get_connector", "shop") == call(app, "get_connector", UUID(made.id)) == made
    assert call(app, "connectors") == [made]
    with pytest.raises(Duplicate, match='there is a connector "shop" already'):
        call(app, "create_connector", "shop", "https://other.example")
    changed = call(app, "change_connector", "shop", new_name="mall", options={"timeout": "5s"}, enabled=False)
    assert (changed.name, changed.options, changed.enabled, changed.revision) == ("mall", {"timeout": "5s"}, False, 2)
    with pytest.raises(ChangedMeanwhile):
        call(app, "change_connector", "mall", url="https://b.example", if_match=["1"])
    others = app.tenant("globex")
    for verb in ("get_connector", "delete_connector"):
        for ref in ("mall", UUID(made.id)):
            with pytest.raises(NotFound):
                call(others, verb, ref)
    assert call(others, "connectors") == []
    call(app, "delete_connector", "mall", actor="bob")
    assert call(app, "connectors") == []
    actions = [(each.actor, each.action, each.detail) for each in app.audit_log()]
    assert actions[::-1] == [
        ("ann", "connector.created", "shop"),
        (None, "connector.changed", "shop: name, options, enabled"),
        ("bob", "connector.deleted", "mall"),
    ]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"url": "ftp://a.example"}, "does not start with https:// or http://"),
        ({"url": "https://user:pw@a.example"}, "holds a user or password"),
        ({"url": "https://a.example\\@b.example"}, "a backslash"),
        ({"url": "https://127.1/"}, "is no IPv4 address of four decimal numbers"),
        ({"url": "https://bücher.example"}, "its host is not ASCII"),
        ({"url": "https://a.example:0"}, "is no port"),
        ({"kind": "mail"}, "takes no configuration"),
        ({"headers": {"Authorization": "Bearer abc"}}, "secrets are not stored"),
        ({"headers": {"X-Api-Key": "abc"}}, "secrets are not stored"),
        ({"headers": {"Host": "b.example"}}, "is set by Headway"),
        ({"headers": {"a": "b", "A": "c"}}, "given twice"),
        ({"headers": {"a": "b\r\nx: y"}}, "a text of one line"),
        ({"headers": {"a b": "c"}}, "is not the name of a header"),
        ({"options": {"redirects": 6}}, "redirects=6 is not from 0 to 5"),
        ({"options": {"timeout": "1h"}}, "is not from 1 ms to 5 minutes"),
        ({"options": {"ordered": True}}, "has no option ordered"),
        ({"events": ["order.*"]}, "takes no events"),
        ({"kind": HOOK, "events": ["order*"]}, "neither the name of an event nor a pattern"),
        ({"kind": HOOK, "events": ["headway.*"]}, "is no event of the engine"),
        ({"kind": HOOK, "options": {"signatures": ["v2"]}}, "is not a list of v1"),
        ({"name": "a b"}, "is not a valid name"),
        ({"colour": "red"}, "has no colour"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(given: dict[str, Any], fault: str, tmp_path: Any) -> None:
    app = Headway(f"sqlite:///{tmp_path}/work.db")
    with pytest.raises(InvalidJob) as raised:
        app.create_connector(**{"name": "shop", "url": "https://a.example", **given})
    assert fault in str(raised.value)


def test_patterns_that_another_one_covers_are_left_out(tmp_path: Any) -> None:
    app = Headway(f"sqlite:///{tmp_path}/work.db")
    events = ["order.paid", "order.*", "order.*", "headway.job.dead", "headway.job.*"]
    made = app.create_connector("hook", "https://a.example", kind=HOOK, events=events)
    assert made.events == ["order.*", "headway.job.*"]
    assert app.change_connector("hook", events=["*", "order.paid", "headway.job.dead"]).events == [
        "*",
        "headway.job.dead",
    ]
    assert not covers("order.*", "orders.paid")
    app.close()
