"""Enqueueing over HTTP: every option that the library has, for kinds that are known by their definition alone."""

from __future__ import annotations

from typing import Any

from headway import Headway

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_every_option_arrives(app: Headway, client: Any, keys: dict[str, str]) -> None:
    root = client(keys["superadmin"])
    acme, tenant = app.tenant("acme"), {"Headway-Tenant": "acme"}
    first = acme.enqueue("report").id
    group = acme.group([acme.build_job("report")]).id
    options = {
        "definition_key": "report",
        "queue": "slow",
        "priority": 7,
        "scheduled_for": "2031-01-02T03:04:05Z",
        "expires_at": "2032-01-02T03:04:05Z",
        "max_attempts": 3,
        "max_losses": 2,
        "timeout": "90s",
        "delivery": "at_most_once",
        "idempotency_key": "i",
        "dedupe_key": "u",
        "unique_scope": ["queued", "dead_letter"],
        "unique_group": "reports",
        "on_conflict": "replace",
        "replace": ["payload"],
        "train": "t",
        "on_canceled": "hold",
        "on_dead": "hold",
        "partition": "p",
        "concurrency": 2,
        "concurrency_key": "c",
        "rate": "3/s",
        "burst": 5,
        "rate_key": "r",
        "correlation_id": "co",
        "tags": ["a", "b"],
        "meta": {"customer": 7},
    }
    made = root.post("/jobs", json=options, headers=tenant | {"traceparent": TRACE, "tracestate": "vendor=1"})
    assert made.status_code == 201, made.text
    job = acme.get(made.json()["id"])
    assert (job.kind, job.queue, job.priority, job.max_attempts, job.max_losses) == ("report", "slow", 7, 3, 2)
    assert (job.timeout_ms, job.delivery, job.idempotency_key, job.unique_key) == (90_000, "at_most_once", "i", "u")
    assert (set(job.unique_scope), job.unique_group) == ({"queued", "dead"}, "reports")
    assert (job.train, job.on_canceled, job.on_dead, job.partition) == ("t", "hold", "hold", "p")
    assert (job.concurrency, job.concurrency_key, job.rate_count, job.rate_burst, job.rate_key) == (2, "c", 3, 5, "r")
    assert (job.correlation_id, job.tags, job.meta, job.trace_id) == (
        "co",
        ("a", "b"),
        {"customer": 7},
        f"{TRACE} vendor=1",
    )
    assert job.created_by == f"key:{keys['superadmin'].split('_')[2]}"
    rest = {"kind": "report", "group": group, "after": [first], "on_failure": "continue", "unique_by": ["x"]}
    made = root.post("/jobs", json=rest | {"payload": {"x": 1}, "unique_for": "1h"}, headers=tenant)
    assert made.status_code == 201, made.text
    job = acme.get(made.json()["id"])
    assert (job.group_id, job.status, job.pending) == (group, "held", True)
    assert job.unique_key is not None
    debounced = {"kind": "report", "unique_key": "d", "debounce": "10s", "debounce_max": 60}
    one, two = (root.post("/jobs", json=debounced, headers=tenant).json() for _ in range(2))
    assert (one["id"], one["status"], two["created"]) == (two["id"], "scheduled", False)


def test_a_template_gives_what_the_request_does_not(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["producer"])
    template = acme.create_template("hello", "welcome", {"user_id": 1, "text": "hi"}, options={"priority": 3})
    body = {"template": "hello", "payload": {"user_id": 7}}
    made = ask.post("/jobs", json=body).json()["id"]
    job = acme.get(made)
    assert (job.kind, job.payload, job.priority) == ("welcome", {"user_id": 7, "text": "hi"}, 3)
    assert (job.template_id, job.created_by[:4]) == (template.id, "key:")
    assert ask.post("/jobs", json=body | {"kind": "welcome"}).status_code == 201
    assert ask.post("/jobs", json=body | {"kind": "report"}).status_code == 422
    assert ask.post("/jobs", json=body | {"queue": "other"}).status_code == 403
    assert ask.post("/jobs", json={"template": "bye"}).status_code == 404


def test_kinds_that_only_code_can_enqueue_are_refused_with_the_reason(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    code = Headway(app.url)

    @code.job(unique_key="{user}")
    async def by_template(user: str) -> None: ...

    @code.job(train=lambda user: user.lower())
    async def by_code(user: str) -> None: ...

    @code.job(train="t{user}", partition="p{user}")
    async def in_trains(user: str) -> None: ...

    ask = client(keys["producer"])
    assert ask.post("/jobs", json={"kind": "by_code", "payload": {"user": "A"}}).json()["code"] == "UnknownKind"
    code.run(until_idle=True)
    code.close()
    said = ask.post("/jobs", json={"kind": "by_code", "payload": {"user": "A"}})
    assert (said.status_code, "made by its code" in said.json()["detail"]) == (422, True), said.text
    made = ask.post("/jobs", json={"kind": "by_template", "payload": {"user": "A"}})
    assert app.tenant("acme").get(made.json()["id"]).unique_key == "A"
    made = ask.post("/jobs", json={"kind": "in_trains", "payload": {"user": "A"}})
    job = app.tenant("acme").get(made.json()["id"])
    assert (job.train, job.partition) == ("tA", "pA")
    own = ask.post("/jobs", json={"kind": "by_code", "payload": {"user": "A"}, "train": "mine"})
    assert app.tenant("acme").get(own.json()["id"]).train == "mine"


def test_options_come_from_the_stored_definition_whatever_code_the_server_has(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    workers = Headway(app.url)
    workers.job(name="resize", timeout="30s", queue="images", concurrency=3)(lambda size: None)
    workers.run(until_idle=True)
    workers.close()
    app.job(name="resize", timeout="60s", queue="other", concurrency=5)(lambda size: None)
    app.create_template("small", "resize", payload={"size": 1}, tenant="acme")
    ask = client(keys["producer"])
    for body in ({"kind": "resize", "payload": {"size": 1}}, {"template": "small"}):
        made = ask.post("/jobs", json=body)
        assert made.status_code == 201, made.text
        job = app.tenant("acme").get(made.json()["id"])
        assert (job.timeout_ms, job.queue, job.concurrency) == (30_000, "images", 3)


def test_a_trace_that_is_none_is_not_kept(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["producer"])
    for bad in ("nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ff" + TRACE[2:]):
        made = ask.post("/jobs", json={"kind": "report"}, headers={"traceparent": bad})
        assert app.get(made.json()["id"]).trace_id is None
