"""connector.webhook.deliver: what a receiver gets and can verify, and what its answers mean for the endpoint."""

from __future__ import annotations

import base64
import hmac
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook

from headway import Headway, webhooks
from headway.connectors.webhook_deliver import SCHEDULE_S, wait_after
from headway.errors import ConfigError, InvalidSignature, NotFound
from tests.connectors.loopback import Asked, answer, serving

KIND = "connector.webhook.deliver"
MASTER = "a master secret of more than 32 characters"


@pytest.fixture(autouse=True)
def master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_WEBHOOK_SECRET", MASTER)


def deliveries(app: Headway, **filters: Any) -> list[Any]:
    return sorted(app.jobs(kind=KIND, **filters), key=lambda job: job.id)


def test_the_vectors_of_the_specification_hold() -> None:
    # from the specification's own page and its libraries
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    made = webhooks.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = {
        "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1,{base64.b64encode(b'no').decode()} {made} v2,x",
    }
    assert webhooks.verify(body, headers, secret, now=1614265330.0) == {"test": 2432232314}
    assert webhooks.verify(body.decode(), headers, ["whsec_AAAA", secret], now=1614265530.0)
    for wrong, reason in (
        ({"payload": b'{"test": 2432232315}'}, "no signature"),
        ({"secret": "whsec_AAAA"}, "no signature"),
        ({"now": 1614265330 + 301}, "too far from now"),
        ({"now": 1614265330 - 301}, "too far from now"),
        ({"headers": headers | {"webhook-signature": "v1"}}, "no signature"),
        ({"headers": headers | {"webhook-signature": made.replace("v1,", "v1a,")}}, "no signature"),
        ({"headers": headers | {"webhook-timestamp": "now"}}, "not a number"),
        ({"headers": {"webhook-id": "x"}}, "is missing"),
    ):
        given: dict[str, Any] = {"payload": body, "headers": headers, "secret": secret, "now": 1614265330, **wrong}
        with pytest.raises(InvalidSignature, match=reason):
            webhooks.verify(given["payload"], given["headers"], given["secret"], now=given["now"])
    with pytest.raises(ConfigError, match="whsec_ and base64"):
        webhooks.verify(body, headers, "not base64!", now=1614265330)
    # a receiver without its secret must not take what anybody can sign
    mac = hmac.new(b"", b"m.1614265330." + body, "sha256").digest()
    forged = {"webhook-id": "m", "webhook-timestamp": "1614265330"}
    forged["webhook-signature"] = f"v1,{base64.b64encode(mac).decode()}"
    for empty in ("", "whsec_", [secret, ""], ["whsec_"], [], (), "whpk_", "whpk_AAAA", None):
        with pytest.raises(ConfigError, match=r"empty|a secret|32 bytes"):
            webhooks.verify(body, forged, empty, now=1614265330)  # type: ignore[arg-type]


def test_the_message_that_receivers_are_shown_is_what_is_sent() -> None:
    """clients/webhooks.json; the TypeScript client's tests verify it by the npm library of the specification."""
    said = json.loads((Path(__file__).parents[2] / "clients" / "webhooks.json").read_text("utf-8"))
    body, headers = said["body"].encode(), said["headers"]
    message_id, stamp = headers["webhook-id"], int(headers["webhook-timestamp"])
    keys = [webhooks.EndpointKeys(said["master"], said["endpoint"], version) for version in (2, 1)]
    assert [each.secret for each in keys] == said["secrets"]
    assert [each.public_key for each in keys] == said["public_keys"]
    made = [each.signature(scheme, message_id, stamp, body) for each in keys for scheme in ("v1", "v1a")]
    assert " ".join(made) == headers["webhook-signature"]
    # v1a by the specification's text: ed25519 over id.timestamp.body, the key and the signature in base64
    signed = f"{message_id}.{stamp}.{said['body']}".encode()
    for key, signature in zip(said["public_keys"], made[1::2], strict=True):
        raw = base64.b64decode(key.removeprefix("whpk_"))
        scheme, _, text = signature.partition(",")
        assert (scheme, len(raw), len(base64.b64decode(text))) == ("v1a", 32, 64)
        Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(text), signed)
    for key in (*said["secrets"], *said["public_keys"]):
        assert webhooks.verify(said["body"], headers, key, now=stamp) == json.loads(body)
    # forgeries: a public key taken for a shared secret, another scheme's name, bytes that are no text
    forged = webhooks.sign("whsec_" + said["public_keys"][0].removeprefix("whpk_"), message_id, stamp, body)
    for wrong in (
        {"webhook-signature": forged},
        {"webhook-signature": forged.replace("v1,", "v1a,")},
        {"webhook-signature": " ".join(each.replace("v1a,", "v1b,") for each in made[1::2])},
        {"webhook-signature": "v1a," + "A" * 88},
        {"webhook-id": "\udcff"},
        {"webhook-id": f"{message_id}.{stamp}", "webhook-timestamp": str(stamp)},
    ):
        with pytest.raises(InvalidSignature):
            webhooks.verify(body, headers | wrong, said["public_keys"][0], now=stamp)
    with pytest.raises(InvalidSignature):
        webhooks.verify("\udcff", headers, said["secrets"][0], now=stamp)


def test_keys_are_derived_from_the_endpoint_and_its_version() -> None:
    keys = [webhooks.EndpointKeys(MASTER, each, version) for each in ("a", "b") for version in (1, 2)]
    assert len({each.secret for each in keys} | {each.public_key for each in keys}) == 8
    assert webhooks.EndpointKeys(MASTER, "a", 1).secret == keys[0].secret
    now = int(datetime.now(UTC).timestamp())
    headers = {"webhook-id": "m", "webhook-timestamp": str(now)}
    headers["webhook-signature"] = keys[0].signature("v1a", "m", now, b"{}")
    assert webhooks.verify(b"{}", headers, keys[0].public_key) == {}
    for other in (keys[1].public_key, keys[0].secret):
        with pytest.raises(InvalidSignature):
            webhooks.verify(b"{}", headers, other)
    with pytest.raises(ConfigError, match="less than 32 characters"):
        webhooks.EndpointKeys("short", "a", 1)


def test_events_are_delivered_signed_so_that_receivers_can_verify_them(app: Headway) -> None:
    with serving(lambda asked: answer(204)) as server:
        made = app.add_webhook(
            f"{server.url}/hook",
            ["order.*", "headway.job.dead"],
            name="shop",
            headers={"X-Shop": "7"},
            options={"signatures": ["v1", "v1a"]},
            actor="ann",
        )
        assert [(each.name, each.event, each.kind) for each in app.triggers()] == [
            ("webhook:shop:order.all", "order.*", KIND),
            ("webhook:shop:headway.job.dead", "headway.job.dead", KIND),
        ]
        first = app.emit("order.paid", {"id": 7, "big": 2**60, "ü": None})
        app.emit("order.paid", {"id": 7, "big": 2**60, "ü": None})  # the same data are another event
        app.emit("other.thing", {})
        app.run(until_idle=True)
        old = made.secret
        rotated = app.rotate_webhook("shop")
        assert rotated.secret != old
        app.test_webhook("shop")
        app.run(until_idle=True)
        app.rotate_webhook("shop", overlap=0)
        app.test_webhook("shop")
        app.run(until_idle=True)
    jobs = deliveries(app)
    assert Counter(job.status for job in jobs) == {"succeeded": 4}
    asked = {each.headers["webhook-id"]: each for each in server.asked}
    assert set(asked) == {job.id for job in jobs}
    one, two, test, last = (asked[job.id] for job in jobs)
    assert json.loads(one.body)["data"] == json.loads(two.body)["data"] == {"id": 7, "big": 2**60, "ü": None}
    assert (json.loads(one.body)["type"], one.headers["x-shop"], one.target) == ("order.paid", "7", "/hook")
    event = app.get_event(first)
    assert datetime.fromisoformat(json.loads(one.body)["timestamp"]) == event.emitted_at
    # the specification's own library and ours, by the secret that was shown
    for key in (made.secret, made.public_key):
        assert webhooks.verify(one.body, one.headers, key)["type"] == "order.paid"
    Webhook(made.secret).verify(one.body, one.headers)
    # while it is rotated, both secrets hold; later the new one alone
    for key in (old, rotated.secret, rotated.public_key):
        assert webhooks.verify(test.body, test.headers, key)["type"] == "headway.webhook.test"
    assert len(test.headers["webhook-signature"].split(" ")) == 4
    for key in (old, rotated.secret):
        with pytest.raises(InvalidSignature):
            webhooks.verify(last.body, last.headers, key)
    # nothing of a secret is in any row
    stored = repr([app.connectors(), jobs, app.triggers(), app.audit_log(), [app.result(job.id) for job in jobs]])
    for key in (old, rotated.secret, MASTER):
        assert key.removeprefix("whsec_") not in stored


def test_a_failing_endpoint_is_tried_by_the_schedule_and_410_disables_it(app: Headway) -> None:
    said: dict[str, bytes] = {
        "/": answer(404, "not yet"),
        "/gone": answer(410),
        "/busy": answer(429, retry_after="7200"),
    }
    with serving(lambda asked: said[asked.target]) as server:
        app.add_webhook(server.url, ["a"], name="a")
        app.add_webhook(f"{server.url}/gone", ["b"], name="b")
        app.add_webhook(f"{server.url}/busy", ["c"], name="c")
        for name in ("a", "b", "c"):
            app.emit(name)
        app.run(until_idle=True)
        again, gone, busy = deliveries(app)
        app.emit("b")
        app.run(until_idle=True)
        (*_, off) = deliveries(app)
        assert sorted(each.target for each in server.asked) == ["/", "/busy", "/gone"]
    assert (again.status, again.max_attempts) == ("scheduled", 10)
    assert 5 <= (again.scheduled_for - again.created_at).total_seconds() < 8
    assert 7_200 <= (busy.scheduled_for - busy.created_at).total_seconds() < 7_210
    assert (gone.status, "410" in gone.error, 'endpoint "b" is disabled now' in gone.error) == ("dead", True, True)
    endpoint = app.get_connector("b")
    assert (endpoint.enabled, endpoint.disabled_reason[:21]) == (False, "it answered 410 Gone ")
    assert app.audit_log()[0].action == "connector.changed"
    assert (off.status, off.error.startswith('endpoint "b" is disabled: it answered 410 Gone')) == ("canceled", True)
    assert app.change_connector("b", enabled=True).disabled_reason is None
    for failures, wait in enumerate(SCHEDULE_S, 1):
        assert wait <= wait_after(failures) <= 1.1 * wait
    assert 86_400 <= wait_after(99) <= 1.1 * 86_400


def test_ends_of_deliveries_never_trigger_deliveries(app: Headway) -> None:
    with serving(lambda asked: answer(410)) as server:
        # its death is an event that every endpoint here wants, but not for webhooks
        app.add_webhook(server.url, ["order.paid"], name="one")
        app.add_webhook(server.url, ["headway.job.*"], name="two")
        app.create_trigger("tell", "headway.job.dead", kind="tell", payload={"what": "{{event.kind}}"})
        app.emit("order.paid")
        app.run(until_idle=True)
        assert len(server.asked) == 1
    assert [job.status for job in deliveries(app)] == ["dead"]
    assert [job.payload for job in app.jobs(kind="tell")] == [{"what": KIND}]


def test_a_message_that_is_sent_again_is_signed_by_the_secrets_of_that_time(app: Headway) -> None:
    broken = [True]
    with serving(lambda asked: answer(500) if broken[0] else answer(204)) as server:
        made = app.add_webhook(server.url, ["a"], name="a")
        # an id that the caller chose, as SQL may: no time can be read from it
        new = app._built(KIND, {"endpoint": made.endpoint.id, "type": "a", "data": 1}, {})
        job = app.enqueue_new(msgspec.structs.replace(new, id="ffffffff-ffff-7fff-bfff-ffffffffffff"), None)
        app.run(until_idle=True)
        rotated = app.rotate_webhook("a")
        broken[0] = False
        app.change(job.id, scheduled_for=datetime.now(UTC))
        app.run(until_idle=True)
        first, second = server.asked
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == job.id
    assert first.body == second.body
    assert datetime.fromisoformat(json.loads(first.body)["timestamp"]) == app.get(job.id).created_at
    for key in (made.secret, rotated.secret):
        assert webhooks.verify(second.body, second.headers, key)["data"] == 1
    with pytest.raises(InvalidSignature):
        webhooks.verify(first.body, first.headers, rotated.secret)


def test_a_tenant_reaches_no_endpoint_of_another(app: Headway) -> None:
    with serving(lambda asked: answer(410)) as server:
        acme, globex = app.tenant("acme"), app.tenant("globex")
        theirs = acme.add_webhook(server.url, ["order.*"], name="shop")
        globex.add_webhook(server.url, ["order.*"], name="shop")
        stray = globex.enqueue(KIND, {"endpoint": theirs.endpoint.id, "type": "order.paid", "data": {}})
        globex.emit("order.paid")
        app.run(until_idle=True)
        assert len(server.asked) == 1
    stopped = globex.get(stray.id)
    assert (stopped.status, "has no webhook endpoint" in stopped.error) == ("canceled", True)
    # the same address answered 410, but not for this one
    assert (globex.get_connector("shop").enabled, acme.get_connector("shop").enabled) == (False, True)


def test_an_ordered_endpoint_gets_its_events_one_after_the_other(app: Headway) -> None:
    broken = [True]

    def script(asked: Asked) -> bytes:
        return answer(500) if broken[0] else answer(200)

    with serving(script) as server:
        app.add_webhook(server.url, ["order.*"], name="shop", options={"ordered": True})
        for number in range(3):
            app.emit("order.paid", number)
        app.run(until_idle=True)
        assert [json.loads(each.body)["data"] for each in server.asked] == [0]
        assert [job.status for job in deliveries(app)] == ["scheduled", "held", "held"]
        broken[0] = False
        app.change(deliveries(app)[0].id, scheduled_for=datetime.now(UTC))
        app.run(until_idle=True)
        assert [json.loads(each.body)["data"] for each in server.asked] == [0, 0, 1, 2]
        assert len({each.headers["webhook-id"] for each in server.asked}) == 3


def test_triggers_follow_their_endpoint(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    app.add_webhook("https://shop.example/x", ["order.*", "user.made"])
    assert app.get_connector("shop.example").events == ["order.*", "user.made"]
    kept = {each.event: each.id for each in app.triggers()}
    app.change_connector("shop.example", new_name="shop", events=["order.*", "cart.*"], options={"ordered": True})
    found = {each.event: each for each in app.triggers()}
    assert {event: each.name for event, each in found.items()} == {
        "order.*": "webhook:shop:order.all",
        "cart.*": "webhook:shop:cart.all",
    }
    assert found["order.*"].id == kept["order.*"]
    assert all(each.options["train"].startswith("webhook:") for each in found.values())
    app.delete_trigger("webhook:shop:cart.all")
    app.delete_connector("shop")
    assert app.triggers() == []
    with pytest.raises(NotFound):
        app.tenant("globex").rotate_webhook("shop")
    monkeypatch.delenv("HEADWAY_WEBHOOK_SECRET")
    with pytest.raises(ConfigError, match="HEADWAY_WEBHOOK_SECRET is not set"):
        app.add_webhook("https://shop.example", ["order.*"])
    assert app.connectors() == []


def test_a_worker_without_the_master_secret_tries_again(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda asked: answer(200)) as server:
        app.add_webhook(server.url, ["a"], name="a")
        monkeypatch.delenv("HEADWAY_WEBHOOK_SECRET")
        app.emit("a")
        app.run(until_idle=True)
        assert server.asked == []
    (job,) = deliveries(app)
    assert (job.status, job.error) == ("scheduled", "HEADWAY_WEBHOOK_SECRET is not set for this worker")
