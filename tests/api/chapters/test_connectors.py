"""Connectors' configurations over HTTP."""

from __future__ import annotations

from typing import Any

from headway import Headway


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
