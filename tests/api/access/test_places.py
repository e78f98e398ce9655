"""Places of requests that are under way: shared between the tenants that ask at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from headway import Headway
from headway.api import Api
from headway.api.access.places import ALONE, CREDIT_S, PACE, PLACES, SHARE, Places
from headway.api.access.rates import BodyBytes, LargeBodies
from headway.api.serving.settings import server_settings
from headway.api.wire.problems import Refused
from headway.errors import ConfigError
from tests.api.conftest import Client

_SHARE = SHARE["postgres"]


def test_tenants_that_ask_together_have_a_share_each_and_take_turns() -> None:
    now = [0.0]
    order: list[str] = []
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def ask(places: Places, tenant: str, passes: int) -> None:
        async with places.taken(tenant):
            order.append(tenant)
            under_way[tenant] += 1
            most[tenant] = max(most[tenant], under_way[tenant])
            for _ in range(passes):
                await asyncio.sleep(0)
            under_way[tenant] -= 1

    async def main() -> None:
        places = Places(_SHARE, lambda: now[0])
        await asyncio.gather(*(ask(places, "many", 5) for _ in range(200)))
        assert (most.pop("many"), under_way.total()) == (ALONE, 0)
        order.clear()
        storm = [asyncio.create_task(ask(places, "many", 50)) for _ in range(200)]
        await asyncio.sleep(0)
        assert under_way["many"] == ALONE
        few = [asyncio.create_task(ask(places, f"few-{n}", 5)) for n in range(50) for _ in range(2)]
        await asyncio.gather(*few)
        assert "many" not in order[ALONE:PLACES]  # places were kept free for the others
        assert order[PLACES:].index("many") >= 100 - (PLACES - ALONE)  # and it takes no turn beyond its share
        await asyncio.gather(*storm)
        again = [asyncio.create_task(ask(places, name, 5)) for name in ["few"] + ["many"] * 100 + ["few"] * 100]
        most.clear()
        await asyncio.gather(*again)
        assert (most["many"], most["few"]) == (_SHARE, _SHARE)
        now[0] += 2
        await asyncio.gather(*(ask(places, "many", 5) for _ in range(100)))
        assert most["many"] == ALONE
        assert (places._free, dict(places._taken), dict(places._waiting)) == (PLACES, {}, {})

    asyncio.run(main())


def test_who_goes_away_while_it_waits_takes_no_place() -> None:
    async def main() -> None:
        places = Places(_SHARE)
        held = [await places.taken("a").__aenter__() for _ in range(ALONE)]
        waiting = [asyncio.create_task(places.take("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        held[0].leave()  # the second one's turn
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [each.cancelled() for each in waiting] == [True, True, False]
        places.give_back("a")
        for each in held:
            each.leave()
            each.leave()  # once
        assert (places._free, dict(places._taken), dict(places._waiting)) == (PLACES, {}, {})

    asyncio.run(main())


def test_too_many_that_wait_are_refused() -> None:
    async def main() -> None:
        places = Places(_SHARE)
        tasks = [asyncio.create_task(places.take("a")) for _ in range(ALONE + 1_000)]
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="1,000 requests of this tenant wait"):
            await places.take("a")
        await places.take("b")
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_slow_requests_of_a_tenant_wait_for_each_other_and_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    async def main() -> None:
        places = Places(_SHARE, lambda: now[0])

        async def ask(tenant: str, what: str, seconds: float) -> None:
            async with places.taken(tenant, what):
                now[0] += seconds

        async def until(done: asyncio.Task[None], most_s: float) -> float:
            began = now[0]
            while not done.done() and now[0] < began + most_s:
                now[0] += 0.1
                await ask("other", "", 0)
                await asyncio.sleep(0.02)  # a timer of real time lets it in
            return now[0] - began

        await ask("other", "", 0)
        for _ in range(5):
            await ask("many", "list", CREDIT_S)
            if now[0] > CREDIT_S * 1.5:
                break
        await ask("other", "", 0)
        slow = asyncio.create_task(ask("many", "list", 0.5))
        assert await until(slow, 0.5) >= 0.5  # it rests
        await ask("many", "look", 0)  # what is quick does not
        await ask("other", "list", 0)
        assert not slow.done()
        assert 0 < await until(slow, 20) <= (2 * CREDIT_S + 0.1) / PACE
        now[0] += 20
        await ask("other", "", 0)
        await ask("many", "look", 0)
        held = [await places.taken("many", "list").__aenter__()]
        second = asyncio.create_task(ask("many", "list", 0))
        await asyncio.sleep(0.05)
        now[0] += 0.01
        held[0].leave()
        await second  # it was quick: it is not slow any more, whoever waited
        assert not places.is_slow("many", "list")
        assert (places._free, dict(places._taken), dict(places._waiting)) == (PLACES, {}, {})
        assert not places._taken_slow

    asyncio.run(main())


def test_where_all_are_slow_only_who_uses_much_more_is_held_back() -> None:
    now = [0.0]

    async def main() -> None:
        places = Places(_SHARE, lambda: now[0])
        for tenant in ("a", "b", "c"):
            for _ in range(3):
                async with asyncio.timeout(5), places.taken(tenant, "list"):
                    now[0] += CREDIT_S
        assert places._owes("a") > CREDIT_S
        for tenant in ("a", "b", "c"):
            async with asyncio.timeout(5), places.taken(tenant, "list"):
                pass
            places.count(tenant, "list", CREDIT_S)
        places.count("c", "list", 20)
        waiting = asyncio.create_task(places.take("c", slow=True))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(main())


def test_alone_a_tenants_slow_requests_do_not_rest() -> None:
    now = [0.0]

    async def main() -> None:
        places = Places(_SHARE, lambda: now[0])
        for _ in range(10):
            async with asyncio.timeout(5), places.taken("many", "list"):
                now[0] += 5
        assert places.is_slow("many", "list")

    asyncio.run(main())


def test_large_bodies_of_a_tenant_are_read_a_few_at_once() -> None:
    async def main() -> None:
        bodies = LargeBodies()
        most: Counter[str] = Counter()
        reading: Counter[str] = Counter()

        async def read(tenant: str, size: int) -> None:
            async with bodies.turn(tenant, size):
                reading[tenant] += 1
                most[tenant] = max(most[tenant], reading[tenant])
                await asyncio.sleep(0)
                reading[tenant] -= 1

        await asyncio.gather(*(read(tenant, 10**6) for tenant in "ab" for _ in range(20)))
        await asyncio.gather(*(read("small", 1_000) for _ in range(20)))
        assert most == {"a": 4, "b": 4, "small": 20}
        assert (bodies._turns, bodies._count) == ({}, {})

    asyncio.run(main())


def test_claims_and_results_that_wait_hold_no_place(app: Headway, api: Api, client: Any, keys: dict[str, str]) -> None:
    job_id = app.tenant("acme").enqueue("welcome", {"user_id": 1}, delay="1h").id
    ask: Client = client(keys["viewer"])
    places = api._places
    seen: list[int] = []
    poll = places.give_back

    def noted(tenant_id: Any, **lane: Any) -> None:
        poll(tenant_id, **lane)
        seen.append(places._free)

    places.give_back = noted  # type: ignore[method-assign]
    assert ask.get(f"/jobs/{job_id}/result?wait=0.05").json()["status"] == "scheduled"
    assert (seen, places._free) == ([PLACES, PLACES], PLACES)


def test_a_tenant_has_a_budget_of_bytes(app: Headway, loop: Any, keys: dict[str, str]) -> None:
    api = Api(app, server_settings({"tenant_bytes": "100KiB/1h"}))
    acme, root = Client(api, loop, keys["producer"]), Client(api, loop, keys["superadmin"])
    job = {"kind": "report", "payload": {"text": "x" * 60_000}}
    assert [acme.post("/jobs", json=job).status_code for _ in range(2)] == [201, 429]
    refused = acme.post("/jobs", json=job)
    assert int(refused.headers["Retry-After"]) > 100
    assert "too many bytes of bodies by this tenant: 102,400 in 3600 s" in refused.json()["detail"]
    small = {"kind": "report", "payload": {"text": "x" * 10_000}}
    assert [acme.post("/jobs", json=small).status_code for _ in range(6)] == [201] * 6
    assert root.post("/jobs", json=job, headers={"Headway-Tenant": "default"}).status_code == 201
    loop.run_until_complete(api.aclose())


def test_the_budget_is_a_setting() -> None:
    default = server_settings({}).tenant_bytes
    assert default is not None
    assert default.count > 16 * 2**20  # the largest body
    assert server_settings({"tenant_bytes": "none"}).tenant_bytes is None
    BodyBytes(server_settings({"tenant_bytes": "none"})).take("a", 2**40)
    for wrong in ("1MiB", "x/1s", "0MiB/1s", "1MiB/0s", 7):
        with pytest.raises(ConfigError):
            server_settings({"tenant_bytes": wrong})
