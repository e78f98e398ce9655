"""PostgreSQL with roles: with the application's own tenant filter taken out, the database lets nothing through."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.api.chapters import ROUTES
from headway.app.tenant_view import TenantView
from headway.errors import NotAllowed
from headway.model.access import ROLES
from headway.store.postgres.store import PostgresStore
from tests.api.access.test_access import MATRIX, _name

pytestmark = pytest.mark.parametrize("app", ["postgres"], indirect=True)


@pytest.fixture(params=["every tenant", "the other tenant"])
def no_first_wall(request: pytest.FixtureRequest, app: Headway, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verbs of acme's requests filter by no tenant, or by the wrong one; their sessions are acme's as ever."""
    other = app.tenant("other")._visible_tenant
    shown = None if request.param == "every tenant" else other
    monkeypatch.setattr(
        TenantView, "_visible_tenant", property(lambda view: shown if view._walled else view._id_of(view._own_tenant))
    )
    return str(request.param)


@pytest.fixture
def others(app: Headway) -> Iterator[dict[str, str]]:
    """What another tenant has; at the end it must be as it was."""
    other = app.tenant("other")
    made = {
        "/jobs/": other.enqueue("welcome", {"user_id": 4711}).id,
        "/events/": other.emit("other.event"),
        "/keys/": other.create_api_key("other key", "viewer").key.id,
    }
    made |= {"tenant": str(other._visible_tenant)}

    def state() -> Any:
        return (
            other.jobs(),
            other.events(),
            other.api_keys(),
            other.audit_log(),
        )

    before = state()
    yield made
    assert state() == before


def test_the_second_wall_alone_lets_nothing_through(
    no_first_wall: str, others: dict[str, str], app: Headway, client: Any, keys: dict[str, str]
) -> None:
    wrong: dict[Any, Any] = {}
    for _ in range(2):  # on fresh and on used connections
        for route in ROUTES:
            roles, body, _ = MATRIX[_name(route)]
            named = next(
                (others[part] for part in sorted(others, reverse=True) if route.path.startswith(f"{part}{{id}}")),
                "mail",
            )
            for role in [each for each in ROLES if each in roles and each not in ("superadmin", "worker")]:
                ask = client(keys[role])
                said = ask(route.method, route.path.replace("{id}", named).replace("{name}", named), json=body)
                seen = [each for each in others.values() if each and each in said.text and each != named]
                if seen or (said.is_success and "{id}" in route.path and route.method != "GET"):
                    wrong[role, _name(route)] = (said.status_code, said.text)
                if said.is_success and "{id}" in route.path and "4711" in said.text:
                    wrong[role, _name(route)] = (said.status_code, said.text)
                if said.status_code >= 500:
                    wrong[role, _name(route)] = (said.status_code, said.text)
    assert wrong == {}


def test_connections_go_back_with_neither_role_nor_tenant(
    app: Headway, client: Any, keys: dict[str, str], loop: Any
) -> None:
    store = app.store
    assert isinstance(store, PostgresStore)
    assert store.walls() == 2
    ask = client(keys["admin"])
    assert ask.get("/jobs").status_code == 200
    assert ask.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 1}}).status_code == 201
    acme = app._walled_tenant(app.tenant("acme")._visible_tenant or "")

    async def sessions() -> list[Any]:
        # refused by the database, and broken off
        with pytest.raises(NotAllowed):
            await acme._store.arun(store.ops.create_key(_key(), actor=None))
        task = asyncio.create_task(acme.ajobs())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await acme.ajobs()
        found = []
        async with store._tenants.apool.connection() as first, store._tenants.apool.connection() as second:
            for conn in (first, second):
                row = await (
                    await conn.execute(
                        "select current_setting('role'), coalesce(current_setting('headway.tenant_id', true), '')"
                    )
                ).fetchone()
                found.append(row)
        return found

    assert loop.run_until_complete(sessions()) == [("none", "")] * 2


def _key() -> Any:
    from headway.model.access import NewApiKey

    return NewApiKey(id="0123456789ab", secret_hash=bytes(32), name="root", role="superadmin", tenant_id=None)


def test_every_function_of_the_role_checks_the_tenant(app: Headway) -> None:
    with psycopg.connect(app.url) as conn:
        rows = conn.execute(
            "select p.proname, p.prosrc, p.prosecdef and has_function_privilege(headway.wall_role(), p.oid, 'execute')"
            " from pg_proc p where p.pronamespace = 'headway'::regnamespace"
        ).fetchall()
    sources = {name: source for name, source, _ in rows}
    checked = {
        name for name, source in sources.items() if re.search(r"headway\.(acting_tenant|tenant|trusted)\(", source)
    }
    for _ in sources:  # a function that hands all it was given to one of these
        checked |= {name for name, source in sources.items() if {*re.findall(r"headway\.(\w+)\(", source)} & checked}
    # a function that runs with the caller's rights sees what row-level security lets it see
    assert {name for name, _, reachable in rows if reachable} - checked == {
        "tenant",  # that is what they check
        "refuse_suspended",  # raises, or does nothing
    }
