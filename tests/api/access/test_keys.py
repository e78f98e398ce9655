"""Keys over HTTP: none wider than its maker's, revoked in every process, and used at most so often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace as replaced

from headway import Headway
from headway.api import Api
from headway.api.access.keys import Keys
from headway.api.access.rates import Rates, Strangers
from headway.api.serving.settings import server_settings
from headway.api.wire.cursors import make_cursor
from headway.api.wire.problems import Refused
from headway.errors import NotFound, StoreUnavailable
from headway.model.key_text import KeyText, new_key, read_key

SOON = datetime.now(UTC) + timedelta(days=1)


def test_no_key_makes_a_wider_one(app: Headway, client: Any, keys: dict[str, str]) -> None:
    admin, root = client(keys["admin"]), client(keys["superadmin"])
    acme = app.tenant("acme")
    brief = client(acme.create_api_key("brief", "admin", expires=SOON).text)
    narrow = client(acme.create_api_key("narrow", "admin", kinds=["welcome"]).text)
    later, sooner = (SOON + timedelta(hours=1)).isoformat(), (SOON - timedelta(hours=1)).isoformat()
    new = {"name": "new", "role": "viewer"}
    cases = [
        (admin, new, {}, 201),
        (admin, new | {"queues": ["mail"], "expires_at": later}, {}, 201),
        (admin, new | {"role": "superadmin"}, {}, 403),
        (admin, new, {"Headway-Tenant": "other"}, 404),
        (brief, new, {}, 403),
        (brief, new | {"expires_at": later}, {}, 403),
        (brief, new | {"expires_at": sooner}, {}, 201),
        (root, new, {}, 422),  # of which tenant?
        (root, new, {"Headway-Tenant": "acme"}, 201),
        (root, new | {"role": "worker"}, {}, 201),
        (root, new | {"role": "superadmin"}, {}, 201),
        (root, new | {"role": "superadmin"}, {"Headway-Tenant": "acme"}, 422),
        (admin, new | {"expires_at": "2001-01-01T00:00:00Z"}, {}, 422),
        (root, new | {"role": "superadmin", "queues": ["mail"]}, {}, 422),
        (admin, new | {"role": "admin", "kinds": ["welcome"]}, {}, 201),
        (narrow, new, {}, 403),
        (narrow, new | {"kinds": ["report"]}, {}, 403),
        (narrow, new | {"role": "admin", "kinds": ["welcome"]}, {}, 201),
    ]
    for ask, body, headers, status in cases:
        said = ask.post("/keys", json=body, headers=headers)
        assert said.status_code == status, (body, headers, said.text)


def test_a_key_with_another_secret_or_mode_is_refused(client: Any, keys: dict[str, str]) -> None:
    key = read_key(keys["admin"])
    assert key is not None
    assert client(key.text).get("/keys").status_code == 200
    for other in (KeyText(key.mode, key.id, new_key().secret), KeyText("test", key.id, key.secret)):
        assert client(other.text).get("/keys").status_code == 401


def test_keys_are_listed_in_pages_and_shown_without_a_secret(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    whole = ask.get("/keys").json()
    assert [each["role"] for each in whole["items"]] == ["viewer", "producer", "operator", "admin", "worker"]
    assert whole["next_cursor"] is None
    seen, cursor = [], ""
    while cursor is not None:
        page = ask.get(f"/keys?limit=2{cursor and '&cursor=' + cursor}").json()
        seen += page["items"]
        cursor = page["next_cursor"]
    assert seen == whole["items"]
    one = ask.get(f"/keys/{seen[0]['id']}")
    assert one.json() == seen[0]
    assert not any("secret" in name or "text" in name for name in one.json())
    assert ask.get("/keys?limit=0").status_code == 422
    assert ask.get("/keys/nonsense").status_code == 404


def test_a_revoked_key_is_refused_by_other_processes_within_five_seconds(app: Headway) -> None:
    made = app.create_api_key("root", "superadmin")
    now = [100.0]
    elsewhere = Keys(app, lambda: now[0])

    async def revoke() -> None:
        assert (await elsewhere.check(f"Bearer {made.text}")).id == made.key.id
        await app.arevoke_api_key(made.key.id)
        now[0] += 3.9
        assert (await elsewhere.check(f"Bearer {made.text}")).id == made.key.id, "it need not look for each request"
        now[0] += 0.2
        with pytest.raises(Refused, match="revoked"):
            await elsewhere.check(f"Bearer {made.text}")
        await app.aclose()

    asyncio.run(revoke())


def test_the_last_use_is_stored_when_the_database_is_back(app: Headway, monkeypatch: Any) -> None:
    made = app.create_api_key("root", "superadmin")
    keys = Keys(app)
    minute = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)

    async def use() -> None:
        monkeypatch.setattr("headway.api.access.keys.from_micros", lambda _: minute + timedelta(seconds=42))
        await keys.check(f"Bearer {made.text}")
        with monkeypatch.context() as away:
            away.setattr(type(app.store), "arun", _away)
            with pytest.raises(StoreUnavailable):
                await keys.write_uses()
        await keys.write_uses()
        await keys.check(f"Bearer {made.text}")
        assert keys._used == {}, "no write for each request"
        await keys.check(f"Bearer {app.create_api_key('other', 'superadmin').text}")
        await keys.write_uses()
        assert made.key.id not in keys._written, "it does not grow with every key that was ever used"
        await app.aclose()

    asyncio.run(use())
    assert app.api_key(made.key.id).last_used_at == minute


async def _away(*_: Any, **__: Any) -> None:
    raise StoreUnavailable("away")


def test_invented_keys_push_out_no_real_ones(app: Headway, monkeypatch: Any) -> None:
    monkeypatch.setattr("headway.api.access.keys._MOST", 3)
    made = app.create_api_key("root", "superadmin")
    keys = Keys(app)

    async def ask() -> None:
        await keys.check(f"Bearer {made.text}")
        for _ in range(9):
            with pytest.raises(Refused, match="unknown, revoked or expired"):
                await keys.check(f"Bearer {new_key().text}")
        assert list(keys._found) == [made.key.id]
        await app.aclose()

    asyncio.run(ask())


def test_rates_are_kept_per_key_and_per_tenant(app: Headway, loop: Any, keys: dict[str, str]) -> None:
    from tests.api.conftest import Client

    api = Api(app, server_settings({"key_rate": "3/h", "tenant_rate": "4/h"}))
    viewer, admin, root = (Client(api, loop, keys[role]) for role in ("viewer", "admin", "superadmin"))
    first = viewer.get("/jobs")
    assert first.headers["ratelimit-policy"] == '"key";q=3;w=3600, "tenant";q=4;w=3600'
    assert first.headers["ratelimit"] == '"key";r=2;t=1200, "tenant";r=3;t=900'
    assert [viewer.get("/jobs").status_code for _ in range(3)] == [200, 200, 429], "by its key"
    said = admin.get("/jobs")
    assert (said.status_code, said.json()["code"]) == (429, "TooManyRequests"), "by its tenant: refused ones count"
    assert 800 <= int(said.headers["retry-after"]) <= 1_800
    assert "tenant" in said.json()["detail"]
    assert [root.get("/jobs").status_code for _ in range(4)] == [200, 200, 200, 429], "no tenant, and a key of its own"
    assert "ratelimit" not in Client(api, loop, None).get("/jobs").headers
    loop.run_until_complete(api.aclose())


def test_a_bucket_fills_evenly() -> None:
    now = [0.0]
    rates = Rates(server_settings({"key_rate": "60/min"}), lambda: now[0])
    for _ in range(60):
        rates.take(key="a", tenant=None)
    with pytest.raises(Refused) as refused:
        rates.take(key="a", tenant=None)
    assert refused.value.headers["Retry-After"] == "1"
    assert rates.take(key="b", tenant=None), "another key's"
    now[0] += 2.0
    assert dict(rates.take(key="a", tenant=None))[b"ratelimit"] == b'"key";r=1;t=59'
    assert Rates(server_settings({})).take(key="a", tenant="t") == []


def test_invented_keys_of_one_address_are_looked_up_so_often(
    app: Headway, api: Api, client: Any, keys: dict[str, str]
) -> None:
    api.keys.strangers = Strangers(lambda: 0.0)  # however long this takes
    fresh = app.tenant("acme").create_api_key("fresh", "viewer")
    known, unknown = client(keys["viewer"]), [new_key("live").text for _ in range(105)]
    assert known.get("/jobs").status_code == 200
    said = [client(key).get("/jobs") for key in unknown]
    assert [each.status_code for each in said[:100]] == [401] * 100
    assert [each.status_code for each in said[100:]] == [429] * 5
    assert int(said[-1].headers["retry-after"]) >= 1
    assert known.get("/jobs").status_code == 200, "a key that is in use is not locked out"
    assert client(fresh.text).get("/jobs").status_code == 200, "nor one that nobody has asked with before"
    wrong = fresh.text[:-1] + ("a" if fresh.text[-1] != "a" else "b")
    assert client(wrong).get("/jobs").status_code == 401
    assert client(new_key("live").text).get("/jobs").status_code == 429
    cookie = {"Cookie": "headway=invented"}
    assert client(None).get("/jobs", headers=cookie).status_code == 401, "browsers are counted apart"
    assert client(None).get("/jobs").status_code == 401, "nothing is looked up"


@pytest.mark.parametrize("used", [False, True])
def test_a_wrong_secret_tells_no_more_than_an_unknown_id(app: Headway, monkeypatch: Any, used: bool) -> None:
    made = app.create_api_key("root", "superadmin")
    valid = read_key(made.text)
    assert valid is not None
    keys = Keys(app, lambda: 0.0)
    asked: list[str] = []
    find_key = app.store.ops.find_key
    monkeypatch.setattr(app.store.ops, "find_key", lambda key_id: asked.append(key_id) or find_key(key_id))

    async def said(key: KeyText, address: str) -> tuple[int, int]:
        asked.clear()
        with pytest.raises(Refused) as refused:
            await keys.check(f"Bearer {key.text}", address)
        return refused.value.status, len(asked)

    async def ask() -> None:
        if used:
            await keys.check(f"Bearer {made.text}", "10.0.0.9")
        of = {"10.0.0.1": lambda: new_key("live"), "10.0.0.2": lambda: replaced(valid, secret=new_key().secret)}
        answers = {address: [await said(key(), address) for _ in range(103)] for address, key in of.items()}
        again = {address: [await said(each, address) for each in [key()] * 2] for address, key in of.items()}
        assert [status for status, _ in answers["10.0.0.2"]] == [401] * 100 + [429] * 3
        assert answers["10.0.0.1"][1:] == answers["10.0.0.2"][1:] == [(401, 1)] * 99 + [(429, 0)] * 3
        assert again["10.0.0.1"] == again["10.0.0.2"] == [(429, 0)] * 2
        assert (await keys.check(f"Bearer {made.text}", "10.0.0.2")).id == made.key.id
        await app.aclose()

    asyncio.run(ask())


def test_a_database_that_is_away_makes_nobody_a_stranger(app: Headway, monkeypatch: Any) -> None:
    made = app.create_api_key("root", "superadmin")
    keys = Keys(app)

    async def ask() -> None:
        with monkeypatch.context() as away:
            away.setattr(type(app.store), "arun", _away)
            for _ in range(120):
                with pytest.raises(StoreUnavailable):
                    await keys.check(f"Bearer {made.text}", "10.0.0.1")
        with monkeypatch.context() as silent:
            silent.setattr(type(app.store), "arun", _silent)
            for _ in range(120):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await keys.check(f"Bearer {made.text}", "10.0.0.1")
        assert (await keys.check(f"Bearer {made.text}", "10.0.0.1")).id == made.key.id
        await app.aclose()

    asyncio.run(ask())


async def _silent(*_: Any, **__: Any) -> None:
    await asyncio.sleep(60)


def test_many_requests_with_a_key_that_is_new_here_are_one_look_up(app: Headway, monkeypatch: Any) -> None:
    made = app.create_api_key("root", "superadmin")
    keys = Keys(app)
    asked: list[str] = []
    find_key = app.store.ops.find_key
    monkeypatch.setattr(app.store.ops, "find_key", lambda key_id: asked.append(key_id) or find_key(key_id))

    async def ask() -> None:
        first, *others = [asyncio.create_task(keys.check(f"Bearer {made.text}", "10.0.0.1")) for _ in range(150)]
        await asyncio.sleep(0)
        first.cancel()  # its client goes away
        assert {each.id for each in await asyncio.gather(*others)} == {made.key.id}, "none is refused as a stranger"
        await app.aclose()

    asyncio.run(ask())
    assert asked == [made.key.id]


def test_a_cursor_of_keys_that_names_no_key_is_refused(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["superadmin"])
    page = ask.get("/keys?limit=2").json()
    rest = ask.get(f"/keys?limit=200&cursor={page['next_cursor']}").json()["items"]
    assert len(rest) == len(keys) - 2
    assert ask.get(f"/keys?cursor={make_cursor('keys', 'zzzzzzzzzzzz')}").status_code == 422


def test_no_browser_keeps_or_guesses_an_answer(api: Api, client: Any, keys: dict[str, str]) -> None:
    for answer in (client(keys["viewer"]).get("/jobs"), client(None).get("/jobs"), client(None).get("/healthz")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in answer.headers, "only over TLS"


def test_a_key_is_revoked_with_what_it_made(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")

    def made(key: str, role: str) -> dict[str, Any]:
        answer = client(key).post("/keys", json={"name": role, "role": role})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def trigger(key: str, name: str) -> str:
        new = {"trigger_type": "event", "name": name, "event_name": "paid", "kind": "report"}
        answer = client(key).post("/jobs/triggers", json=new)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    stolen = made(keys["admin"], "admin")
    second = made(stolen["text"], "admin")
    third = made(second["text"], "viewer")
    other = made(keys["admin"], "viewer")
    triggers = [trigger(text, f"t{n}") for n, text in enumerate((stolen["text"], second["text"], keys["admin"]))]
    assert client(keys["admin"])("DELETE", f"/keys/{stolen['key']['id']}?with_made=true").status_code == 200
    revoked = {key.id for key in acme.api_keys() if key.revoked_at is not None}
    assert revoked == {each["key"]["id"] for each in (stolen, second, third)}
    assert other["key"]["id"] not in revoked
    assert [acme.get_trigger(UUID(each)).enabled for each in triggers] == [False, False, True]
    assert app.audit_log(action="key.revoked")
    acme.revoke_api_key(other["key"]["id"])
    with pytest.raises(NotFound):
        app.tenant("globex").revoke_api_key(stolen["key"]["id"], with_made=True)
