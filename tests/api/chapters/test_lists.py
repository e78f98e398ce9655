"""Lists over HTTP: filters, orders, pages; and summaries."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from headway import Headway
from headway.api.chapters import ROUTES
from headway.api.wire import pages


def test_filters_orders_and_pages(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["viewer"])
    app.enqueue("report", unique_key="k1")  # another tenant's
    ids = [
        acme.enqueue("welcome", {"user_id": 0}, tags=["a", "b"], priority=9).id,
        acme.enqueue("report", unique_key="k1", train="t", tags="a", priority=5).id,
        acme.enqueue("report", delay="1h", correlation_id="c").id,
        acme.enqueue("report", train="t", priority=1).id,
    ]

    def found(query: str) -> list[int]:
        said = ask.get(f"/jobs?{query}")
        assert said.status_code == 200, said.text
        return [ids.index(each["id"]) for each in said.json()["items"]]

    assert found("") == [3, 2, 1, 0]
    assert found("order=oldest") == [0, 1, 2, 3]
    assert found("order=priority") == [3, 1, 0, 2]
    assert found("order=run&queue=default") == [1]
    assert found("tag=a&order=oldest") == [0, 1]
    assert found("tag=a&tag=b") == [0]
    assert found("train=t") == [3, 1]
    assert found("train=t&train=u") == [3, 1]
    assert found("train=u&train=v") == []
    assert found("definition_key=welcome") == [0]
    assert found("dedupe_key=k1") == found("q=k1") == [1]
    assert found(f"q={ids[2]}") == [2]
    assert found(f"q={ids[2][:9]}&limit=200")[:1] == [3]  # they were made in the same minute
    assert found("q=beef") == found("q=nobody") == []
    assert found("correlation_id=c&status=scheduled&status=dead_letter") == [2]
    assert found("limit=2&offset=1") == [2, 1]
    assert found("offset=4") == found("offset=10000") == []
    for order, whole in (("newest", [3, 2, 1, 0]), ("oldest", [0, 1, 2, 3]), ("priority", [3, 1, 0, 2])):
        seen, cursor = [], ""
        while cursor is not None:
            page = ask.get(f"/jobs?order={order}&limit=3{cursor and '&cursor=' + cursor}").json()
            seen += [ids.index(each["id"]) for each in page["items"]]
            cursor = page["next_cursor"]
        assert seen == whole
    first = ask.get("/jobs?limit=1").json()["next_cursor"]
    assert ask.get(f"/jobs?order=oldest&cursor={first}").status_code == 422
    assert ask.get(f"/jobs?offset=1&cursor={first}").status_code == 422


def test_trains_and_groups_repeat(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["admin"])
    groups = [acme.group([acme.build_job("report", train=train)]) for train in ("a b", "c", "d")]
    of = [each.jobs[0].id for each in groups]
    other = app.group([app.build_job("report", train="c")])  # another tenant's

    def found(query: str) -> list[str]:
        said = ask.get(f"/jobs?order=oldest&{query}")
        assert said.status_code == 200, said.text
        return [each["id"] for each in said.json()["items"]]

    assert found("train=a%20b&train=c") == of[:2]
    assert found(f"group={groups[1].id}&group={groups[2].id}&group={other.id}") == of[1:]
    assert found(f"train=a%20b&train=c&group={groups[1].id}&group={groups[2].id}") == of[1:2]
    assert ask.get(f"/jobs?group={groups[0].id}&group=nonsense").status_code == 422
    assert [job.id for job in acme.jobs(group_id=groups[1:], train={"c", "d"}, order="oldest")] == of[1:]
    assert acme.count_jobs(group_id=(groups[0], groups[1].id), status=("queued", "dead")) == 2

    def act(**filters: Any) -> int:
        said = ask.post("/jobs/actions", json={"action": "cancel", "filter": filters, "dry_run": True})
        assert said.status_code == 200, said.text
        return int(said.json()["count"])

    assert act(train=["a b", "c"]) == act(group=[groups[0].id, groups[1].id, other.id]) == 2
    assert act(train="c") == act(group=groups[2].id, train=["d"], kind=["report"]) == 1
    assert ask.post("/jobs/actions", json={"action": "cancel", "filter": {"train": []}, "expect": 0}).status_code == 422


def test_a_page_of_a_search_may_be_short_and_leads_on(
    app: Headway, client: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.chapters.jobs.SEARCHED", 6)
    acme, ask = app.tenant("acme"), client(keys["viewer"])
    ids = [acme.enqueue("report", unique_key="k" if n == 1 else None, correlation_id=f"c{n % 8}").id for n in range(16)]
    for n in range(0, 16, 3):
        acme.cancel(ids[n])

    def found(query: str) -> list[list[int]]:
        pages, cursor = [], ""
        while cursor is not None:
            page = ask.get(f"/jobs?{query}{cursor and '&cursor=' + cursor}").json()
            pages.append([ids.index(each["id"]) for each in page["items"]])
            cursor = page["next_cursor"]
        return pages

    assert found("correlation_id=c7&status=queued") == [[7], []]  # 14 13 11 10 8 7, and 5 4 2 1
    assert found("correlation_id=c1&order=oldest&status=queued") == [[1], []]
    assert found("q=k&status=queued") == [[], [1]]
    assert found("unique_key=k&status=canceled") == [[], []]  # six are canceled
    # each status has its half of what may be looked at
    both = found("correlation_id=c1&status=queued&status=canceled")
    assert [*chain(*both)] == [9, 1]
    assert len(both) > 2
    assert found("status=queued&status=canceled&limit=5")[0] == [15, 14, 13, 12, 11]
    assert found("correlation_id=c1&offset=1") == [[1]]  # whole: what is skipped must be found
    pages, last = [], None
    while True:
        page = acme.jobs(correlation_id="c7", after=last, search_limit=6)
        pages.append([ids.index(job.id) for job in page])
        last = getattr(page, "reached", None)
        if last is None:
            break
    assert [*chain(*pages)] == [15, 7]
    assert len(pages) > 1
    assert [ids.index(job.id) for job in acme.jobs(correlation_id="c7")] == [15, 7]


def test_a_summary_counts_what_the_key_may_see(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["viewer"])
    app.enqueue("report")  # another tenant's
    for _ in range(2):
        acme.enqueue("welcome", {"user_id": 1})
    acme.enqueue("report", delay="1h")
    counts = {"queued": 2, "scheduled": 1}
    said = ask.get("/jobs/summary").json()
    assert (said["counts"], said["running"], said["by"]) == (counts, 0, None)
    assert said["oldest_queued_age_seconds"] >= 0
    by = {"queue": {"mail": {"queued": 2}, "default": {"scheduled": 1}}}
    by["kind"] = {"welcome": by["queue"]["mail"], "report": by["queue"]["default"]}
    for name, expected in by.items():
        said = ask.get(f"/jobs/summary?by={name}").json()
        assert (said["counts"], said["by"]) == (counts, expected)
    only = client(acme.create_api_key("mailer", "viewer", queues=["mail"]).text)
    assert only.get("/jobs/summary").json()["counts"] == {"queued": 2}
    assert only.get("/jobs/summary?by=kind").json()["by"] == {"welcome": {"queued": 2}}


def test_a_chain_of_retries(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["operator"])
    chain = [acme.enqueue("report", delivery="at_most_once", max_attempts=1).id]
    from tests.store.db import new_worker, settlement

    worker, store = new_worker(), app.store
    store.run(store.ops.register(worker))
    for _ in range(2):
        (claim,) = store.run(store.ops.claim(worker.id, "default", 1))
        store.run(store.ops.settle(worker.id, [settlement(claim, "dead")]))
        path, key = f"/jobs/{chain[-1]}/retry", {"Idempotency-Key": "again"}
        chain.append(ask.post(path, headers=key).json()["id"])
        repeated = ask.post(path, headers=key)
        assert (repeated.json()["id"], repeated.headers["idempotent-replayed"]) == (chain[-1], "true")
        assert ask.post(path, json={"max_attempts": 2}, headers=key).status_code == 409
    for job_id in chain:
        assert [each["id"] for each in ask.get(f"/jobs/{job_id}/chain").json()["items"]] == chain


def test_every_list_takes_a_limit_a_cursor_and_an_offset() -> None:
    lists = [each for each in ROUTES if each.method == "GET" and hasattr(each.answers.get(200), "next_cursor")]
    assert len(lists) > 25
    for route in lists:
        if route.path == "/stats":
            continue  # a series: its query says from when to when
        assert {"limit", "cursor", "offset"} <= set(getattr(route.query, "__struct_fields__", ())), route.path


def test_lists_that_are_read_whole_have_pages(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, acme = client(keys["superadmin"]), app.tenant("acme")
    job_id = acme.enqueue("report").id
    for number in range(5):
        acme.emit("sold")
        app.pause(f"q{number}")
        app.create_tenant(f"t{number}")
        acme.change(job_id, priority=number)
    for path, key in (("queues", "name"), ("keys", "id"), ("admin/tenants", "id"), ("events", "id")):
        whole = [each[key] for each in ask.get(f"/{path}").json()["items"]]
        _check_pages(ask, f"/{path}", key, whole)
    audit = [each["id"] for each in ask.get(f"/jobs/{job_id}/audit").json()["items"]]
    cursor = _check_pages(ask, f"/jobs/{job_id}/audit", "id", audit)
    other = acme.enqueue("report").id
    assert ask.get(f"/jobs/{other}/audit?cursor={cursor}").status_code == 422, "it is another job's"
    # what a page ended with is gone: the next one goes on at its place
    cursor = ask.get("/queues?limit=2").json()["next_cursor"]
    names = [each["name"] for each in ask.get("/queues").json()["items"]]
    app.resume(names[1])
    after = [each["name"] for each in ask.get(f"/queues?limit=9&cursor={cursor}").json()["items"]]
    assert after == (names[2:] if names[1] in ask.get("/queues").text else names[3:])


def _check_pages(ask: Any, path: str, key: str, whole: list[Any]) -> str:
    """Gives the cursor of the second page."""
    assert len(whole) >= 5, whole
    first = ask.get(f"{path}?limit=2&offset=1").json()
    second = ask.get(f"{path}?limit=2&cursor={first['next_cursor']}").json()
    assert [each[key] for each in first["items"] + second["items"]] == whole[1:5], path
    assert ask.get(f"{path}?limit=0").status_code == ask.get(f"{path}?offset=10001").status_code == 422
    assert ask.get(f"{path}?offset=10000").json() == {"items": [], "next_cursor": None}
    return str(first["next_cursor"])


def test_an_offset_reaches_beyond_what_is_read_at_once(
    app: Headway, client: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_AT_ONCE", 3)
    ids = [app.tenant("acme").emit("sold") for _ in range(6)][::-1]
    page = client(keys["viewer"]).get("/events?offset=2&limit=2").json()
    assert [each["id"] for each in page["items"]] == ids[2:4]
    assert page["next_cursor"] is not None


def test_filters_of_events_repeat(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ids = [app.tenant("acme").emit(name) for name in ("sold", "paid", "lost")][::-1]
    ask = client(keys["viewer"])
    page = ask.get("/events?name=sold&name=lost&status=pending&status=failed&limit=1").json()
    rest = ask.get(f"/events?name=sold&name=lost&limit=1&cursor={page['next_cursor']}").json()
    assert [each["id"] for each in page["items"] + rest["items"]] == [ids[0], ids[2]]
    assert ask.get("/events?status=failed&status=handled").json()["items"] == []
    assert ask.get("/events?status=pending&status=lost").status_code == 422
