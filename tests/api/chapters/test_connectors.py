"""Connectors' configurations over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.webhooks import MASTER, EndpointKeys


def test_a_connector_is_created_changed_by_its_version_and_deleted(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    ask = client(keys["admin"])
    headers = {"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}
    made = ask.post("/connectors", json={"name": "shop", "url": "https://shop.example", "headers": headers})
    assert (made.status_code, made.json()["headers"], made.headers["etag"]) == (201, headers, '"1"')
    path = f"/connectors/{made.json()['id']}"
    assert ask.get("/connectors/shop").json() == ask.get(path).json() == made.json()
    assert [each["name"] for each in ask.get("/connectors?kind=connector.http.request").json()["items"]] == ["shop"]
    assert ask.get("/connectors?kind=other").json()["items"] == []
    assert ask.post("/connectors", json={"name": "shop", "url": "https://b.example"}).status_code == 409
    for body in (
        {"name": "x"},
        {"name": "x", "url": "file:///etc/passwd"},
        {"name": "x", "url": "https://a.example", "headers": {"Authorization": "Bearer abc"}},
        {"name": "x", "url": "https://a.example", "kind": "mail"},
        {"name": "x", "url": "https://a.example", "enabled": "yes"},
        {"name": "x", "url": "https://a.example", "secret_version": 7},
    ):
        assert ask.post("/connectors", json=body).status_code in (400, 422), body
    changed = ask("PATCH", path, json={"name": "mall", "enabled": False}, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.json()["name"], changed.json()["revision"]) == (200, "mall", 2)
    assert ask("PATCH", path, json={"enabled": True}, headers={"If-Match": '"1"'}).status_code == 412
    assert ask("PATCH", path, json={}).status_code == 422
    assert app.tenant("acme").get_connector("mall").created_by.startswith("key:")  # type: ignore[union-attr]
    assert ask("DELETE", path).status_code == 204
    assert ask.get(path).status_code == 404


def test_an_admin_sees_the_secret_of_a_webhook_endpoint_once(
    app: Headway, client: Any, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headway.toml"
    file.write_text('[connectors.webhook.deliver]\nqueue = "hooks"\n')
    monkeypatch.setenv("HEADWAY_CONFIG", str(file))
    worker = Headway(app.url)
    worker.run("none", until_idle=True)  # it declares the kind
    worker.close()
    ask = client(keys["admin"])
    new = {"name": "shop", "url": "https://shop.example", "kind": "connector.webhook.deliver", "events": ["order.*"]}

    # a server without the master secret, or with a bad one
    monkeypatch.delenv(MASTER, raising=False)
    made = ask.post("/connectors", json=new)
    assert made.status_code == 201, made.text
    assert "secret" not in made.json()
    assert f"{MASTER} is not set" in made.json()["secret_missing"]
    assert "headway webhooks rotate shop" in made.json()["secret_missing"]
    for master, said in ((None, "is not set"), ("short", "has less than 32 characters")):
        if master is not None:
            monkeypatch.setenv(MASTER, master)
        refused = ask.post("/connectors/shop/rotate", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "ConfigError")
        assert said in refused.json()["detail"]
        assert "headway webhooks rotate shop" in refused.json()["fix"]
    assert ask.get("/connectors/shop").json()["secret_version"] == 1

    master = "a master secret of more than 32 characters"
    monkeypatch.setenv(MASTER, master)
    rotated = ask.post("/connectors/shop/rotate", json={"overlap": "2h"}, headers={"If-Match": made.headers["etag"]})
    assert rotated.status_code == 200, rotated.text
    derived = EndpointKeys(master, made.json()["id"], 2)
    assert (rotated.json()["secret"], rotated.json()["public_key"]) == (derived.secret, derived.public_key)
    assert rotated.json()["endpoint"] == ask.get("/connectors/shop").json()
    assert rotated.json()["endpoint"]["old_secret_ends_at"] is not None
    assert rotated.headers["etag"] == '"2"'
    again = ask.post("/connectors/shop/rotate", json={}, headers={"If-Match": made.headers["etag"]})
    assert again.status_code == 412
    other = ask.post("/connectors", json=new | {"name": "mall"}).json()
    derived = EndpointKeys(master, other["id"], 1)
    assert (other.pop("secret"), other.pop("public_key")) == (derived.secret, derived.public_key)
    assert ask.get("/connectors/mall").json() == other

    # of connectors that are no endpoints there is nothing to show
    plain = ask.post("/connectors", json={"name": "api", "url": "https://shop.example"})
    assert not {"secret", "public_key", "secret_missing"} & plain.json().keys()
    for verb in ("rotate", "test"):
        assert "is no webhook endpoint" in ask.post(f"/connectors/api/{verb}").json()["detail"], verb
        assert ask.post(f"/connectors/none/{verb}").status_code == 404
        assert client(keys["operator"]).post(f"/connectors/shop/{verb}").status_code == 403
    assert ask.post("/connectors/shop/rotate", json={"overlap": "soon"}).status_code == 422
    tested = ask.post("/connectors/mall/test")
    assert tested.status_code == 201, tested.text
    job = app.get(tested.json()["id"])
    assert (job.kind, job.queue, job.payload["endpoint"]) == (new["kind"], "hooks", other["id"])
    assert (job.payload["type"], job.tenant_id, job.created_by) == (
        "headway.webhook.test",
        other["tenant_id"],
        other["created_by"],
    )
