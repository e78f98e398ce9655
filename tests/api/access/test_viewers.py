"""What a viewer's key is shown: no value that is secret by its name or its kind's definition, wherever it is stored.
Other roles get JSON as it is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway import Context, Done, Flow, Headway, Machine, Spawn, step
from headway.testing import drain

SECRETS = {
    name: f"hunter2-{name}" for name in ("payload", "marked", "meta", "result", "state", "signal", "event", "template")
}
SCHEMA = {"properties": {"pin": {"type": "string", "x-secret": True}}}


@pytest.fixture
def jobs(app: Headway) -> dict[str, str]:
    @app.job(schema=SCHEMA)
    def pay(pin: str = "", password: str = "", shop: str = "") -> dict[str, str]:
        return {"token": SECRETS["result"], "shop": shop}

    @app.machine
    class Order(Machine):
        class State(msgspec.Struct):
            password: str = ""

        @step
        async def start(self, ctx: Context) -> Spawn:
            ctx.state.password = SECRETS["state"]
            return Spawn([pay.build(shop="child"), pay.using(delay="1h").build(shop="later")], then=self.end)

        @step
        async def end(self, ctx: Context) -> Done:
            return Done()

    def sell() -> dict[str, str]:
        return {"password": SECRETS["result"]}

    @app.flow
    async def sale(flow: Flow) -> None:
        await flow.step(sell)
        await flow.receive("receipt")

    acme = app.tenant("acme")
    flow = acme.enqueue("sale")
    acme.signal(flow.id, "receipt", {"token": SECRETS["signal"]})
    given = {"pin": SECRETS["marked"], "password": SECRETS["payload"], "shop": "shop-7"}
    done = acme.enqueue("pay", given, meta={"api_key": SECRETS["meta"]}, train="t")
    order = acme.enqueue("order")
    drain(app)
    waiting = acme.enqueue("pay", given, delay="1h", train="t")
    acme.signal(order.id, "receipt", {"token": SECRETS["signal"]})
    acme.emit("order.paid", {"password": SECRETS["event"], "shop": "shop-7"})
    acme.create_template("pay", "pay", {"password": SECRETS["template"]})
    acme.create_schedule("nightly", "0 2 * * *", kind="pay", payload={"password": SECRETS["template"]})
    group = acme.group([app.kinds["pay"].build(**given)])
    return {"done": done.id, "order": order.id, "waiting": waiting.id, "group": group.id, "flow": flow.id}


PLACES = {
    "/jobs": {"payload", "marked", "meta", "result"},
    "/jobs?status=scheduled": {"payload", "marked"},
    "/jobs/{done}": {"payload", "marked", "meta", "result"},
    "/jobs/{done}/result": {"result"},
    "/jobs/{done}/chain": {"payload", "marked", "meta", "result"},
    "/jobs/{done}/attempts": set(),
    "/jobs/{done}/logs": set(),
    "/jobs/{done}/stream": {"payload", "result"},
    "/jobs/{order}": {"state"},
    "/jobs/{order}/history": {"state"},
    "/jobs/{order}/signals": {"signal"},
    "/jobs/{order}/children": {"result"},
    "/jobs/{flow}/journal": {"result", "signal"},
    "/trains/t": set(),
    "/groups/{group}": set(),
    "/events": {"event"},
}
"""Every route that shows what people stored, and which of the secrets are there."""


@pytest.mark.parametrize("path", PLACES)
def test_a_viewer_sees_no_secret(client: Any, keys: dict[str, str], jobs: dict[str, str], path: str) -> None:
    for role in ("viewer", "operator"):
        said = client(keys[role]).get(path.format(**jobs))
        assert said.status_code == 200, said.text
        there = {name for name, secret in SECRETS.items() if secret in said.text}
        if role == "viewer":
            assert there == set()
            assert "[redacted]" in said.text or not PLACES[path]
        else:
            assert there >= PLACES[path] if path.endswith("stream") else there - {"template"} >= PLACES[path]


def test_what_is_no_secret_stays_as_it_is(app: Headway, client: Any, keys: dict[str, str]) -> None:
    text = '{"n": 123456789012345678901234567890, "b": 1, "a": 1.50}'
    job = app.tenant("acme").enqueue("free", msgspec.Raw(text.encode()), queue="q")
    said = client(keys["viewer"]).get(f"/jobs/{job.id}").text
    assert text.replace(" ", "") in said.replace(" ", "")


def test_a_spilled_value_is_not_for_viewers(
    app: Headway, client: Any, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where artifacts are, if nothing says

    @app.job(spill=True)
    def large() -> dict[str, Any]:
        return {"password": SECRETS["result"], "much": "x" * 2_000_000}

    acme = app.tenant("acme")
    job = acme.enqueue("large")
    drain(app)
    (artifact,) = acme.artifacts(job.id)
    path = f"/artifacts/{artifact.id}/content"
    assert client(keys["viewer"]).get(path).status_code == 403
    assert json.loads(client(keys["operator"]).get(path).content)["password"] == SECRETS["result"]


@pytest.mark.parametrize("path", ["/audit", "/audit/export", "/jobs/{waiting}/audit"])
def test_the_audit_shows_viewers_no_changed_payload(
    app: Headway, client: Any, keys: dict[str, str], jobs: dict[str, str], path: str
) -> None:
    app.tenant("acme").change(jobs["waiting"], payload={"pin": "hunter3-pin"}, priority=7)
    operator, viewer = (client(keys[role]).get(path.format(**jobs)).text for role in ("operator", "viewer"))
    for secret in (SECRETS["marked"], "hunter3-pin"):
        assert (secret in operator, secret in viewer) == (True, False)
    assert '"priority":[100,7]' in viewer
