"""connector.http.request: what is sent, what an answer means, and what becomes of a request that is stopped."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.connectors.exchange import Exchanges, Request
from headway.connectors.http_request import retry_after
from headway.errors import ConnectorFailed, InvalidPayload
from headway.model.http_url import read_url
from tests.connectors.certificate import make_certificate
from tests.connectors.loopback import Asked, answer, serving

KIND = "connector.http.request"


def ran(app: Headway, *payloads: dict[str, Any], **options: Any) -> list[Any]:
    ids = [app.enqueue(KIND, payload, **options).id for payload in payloads]
    app.run(until_idle=True)
    return [app.get(each) for each in ids]


def test_a_request_carries_what_the_job_says_and_its_answer_is_the_result(
    app: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-of-the-shop")

    def script(asked: Asked) -> bytes:
        return answer(201, b'{"id": 7}', content_type="application/json; charset=utf-8", etag='"1"', x_other="no")

    with serving(script) as server:
        app.create_connector(
            "shop",
            f"{server.url}/v1?key=a",
            headers={"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}], "X-Account": "7"},
        )
        jobs = ran(
            app,
            {"config": "shop", "path": "/orders?x=1", "query": {"n": 2, "s": "ä b"}, "json": {"a": [1, "ü"]}},
            {"url": f"{server.url}/plain", "idempotency_key": False, "fence": False, "headers": {"Accept": "text/*"}},
            {"url": server.url, "method": "PUT", "text": "häl", "idempotency_key": "mine", "keep": "text"},
            {"url": server.url, "form": {"a": "b c", "token": {"$secret": "SHOP_TOKEN"}}, "keep": "none"},
            {"url": server.url, "base64": "AAEC", "headers": {"x-account": "8", "content-type": "image/png"}},
            {"url": server.url, "method": "DELETE", "keep_headers": ["X-Other"], "max_response": 4},
        )
        assert [job.status for job in jobs] == ["succeeded"] * 6, [job.error for job in jobs]
        came = {(each.method, each.target[1:3], each.body[:1]): each for each in server.asked}
        first, plain, put = came["POST", "v1", b"{"], came["GET", "pl", b""], came["PUT", "", b"h"]
        form, raw, cut = came["POST", "", b"a"], came["POST", "", b"\0"], came["DELETE", "", b""]
    assert (first.method, first.target) == ("POST", "/v1/orders?x=1&key=a&n=2&s=%C3%A4+b")
    assert first.headers["authorization"] == "Bearer s3cret-of-the-shop"
    assert (first.headers["x-account"], first.headers["content-type"]) == ("7", "application/json")
    assert json.loads(first.body) == {"a": [1, "ü"]}
    assert (first.headers["idempotency-key"], first.headers["headway-fence"]) == (jobs[0].id, "1")
    assert first.headers["traceparent"].split("-")[1] == jobs[0].id.replace("-", "")
    assert first.headers["host"] == f"127.0.0.1:{server.port}"
    assert not {"idempotency-key", "headway-fence", "authorization", "content-length"} & set(plain.headers)
    assert (plain.method, plain.headers["accept"]) == ("GET", "text/*")
    assert (put.method, put.body.decode(), put.headers["idempotency-key"]) == ("PUT", "häl", "mine")
    assert form.body == b"a=b+c&token=s3cret-of-the-shop"
    assert (raw.body, raw.headers["content-type"], raw.headers["x-account"]) == (b"\x00\x01\x02", "image/png", "8")
    assert cut.method == "DELETE"
    result = app.result(jobs[0].id).value
    timings = result.pop("timings")
    assert result == {
        "status": 201,
        "headers": {"content-type": "application/json; charset=utf-8", "etag": '"1"'},
        "body": {"id": 7},
        "truncated": False,
        "url": f"{server.url}/v1/orders?x=1&key=a&n=2&s=%C3%A4+b",
        "redirects": 0,
    }
    assert 0 <= timings["first_byte_ms"] <= timings["total_ms"]
    values = [app.result(job.id).value for job in jobs]
    assert [value["body"] for value in values[2:4]] == ['{"id": 7}', None]
    assert (values[5]["body"], values[5]["truncated"], values[5]["headers"]) == ('{"id', True, {"x-other": "no"})


def test_an_answer_decides_whether_the_request_is_sent_again(app: Headway) -> None:
    said = {
        "/500": answer(500, "oops"),
        "/503": answer(503, "later", retry_after="7200"),
        "/429": answer(429, retry_after=(datetime.now(UTC) + timedelta(hours=3)).strftime("%a, %d %b %Y %H:%M:%S GMT")),
        "/408": answer(408),
        "/425": answer(425, retry_after="soon"),
        "/404": answer(404, "there is\n no such   order" + "x" * 1_000),
        "/302": answer(302, location="/500"),
        "/304": answer(304),
        "/409": answer(409, "taken"),
        "/cut": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "/junk": b"hello?\r\n\r\n",
        "/nojson": answer(200, "<html>"),
        "/nul": answer(200, b"a\x00\xff" + b"b" * 3_000_000, content_type="text/plain"),
    }
    with serving(lambda asked: said[asked.target]) as server:
        paths = list(said)
        payloads: list[dict[str, Any]] = [{"url": server.url + path} for path in paths]
        payloads[8]["expect"] = [409, 410]
        payloads[11]["keep"] = "json"
        payloads[12]["max_response"] = 10_000_000
        jobs = dict(zip(paths, ran(app, *payloads), strict=True))
        asked = len(server.asked)
    assert asked == len(said)
    for path in ("/500", "/503", "/429", "/408", "/425", "/cut", "/junk"):
        assert (jobs[path].status, jobs[path].tries) == ("scheduled", 1), path
    waits = {
        path: (job.scheduled_for - job.created_at).total_seconds() for path, job in jobs.items() if job.scheduled_for
    }
    assert 7_200 <= waits["/503"] < 7_300
    assert 10_700 <= waits["/429"] < 10_900
    assert waits["/500"] < 600
    assert jobs["/500"].error == f"127.0.0.1:{server.port} answered 500: oops"
    for path in ("/404", "/302", "/304", "/nojson"):
        assert (jobs[path].status, jobs[path].tries) == ("dead", 1), path
    assert jobs["/404"].error.startswith(f"127.0.0.1:{server.port} answered 404: there is no such order")
    assert len(jobs["/404"].error) < 600
    assert "but not with JSON: <html>" in jobs["/nojson"].error
    assert app.result(jobs["/409"].id).value["status"] == 409
    # an answer that cannot be stored does not fail what was done
    nul = app.result(jobs["/nul"].id).value
    assert (nul["status"], nul["body"], nul["truncated"]) == (200, None, True)


def test_retry_after_is_read_in_both_forms_and_never_longer_than_a_day() -> None:
    now = datetime(2026, 5, 17, 12, tzinfo=UTC)
    read = {
        None: None,
        "": None,
        "7": 7.0,
        " 7 ": 7.0,
        "-7": None,
        "1e9": None,
        "99999999999": 86_400.0,
        "Sun, 17 May 2026 12:01:00 GMT": 60.0,
        "Sun, 17 May 2026 11:00:00 GMT": 0.0,
        "Sun, 17 May 2099 11:00:00 GMT": 86_400.0,
        "tomorrow": None,
    }
    assert {value: retry_after(value, now) for value in read} == read


def test_a_secret_goes_to_its_hosts_only_and_is_never_stored(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-of-the-shop")
    monkeypatch.setenv("OTHER_TOKEN", "s3cret-of-another")
    bearer = ["Bearer ", {"$secret": "SHOP_TOKEN"}]
    with serving(lambda asked: answer(200, f"you sent {asked.headers}", set_cookie="a")) as server:
        evil = f"http://evil.test:{server.port}"
        app.create_connector("gone", server.url, headers={"X-Key": {"$secret": "GONE_KEY"}})
        app.create_connector("evil", evil, headers={"Authorization": bearer})
        jobs = ran(
            app,
            {"url": server.url, "headers": {"Authorization": bearer}},
            {"config": "evil"},
            {"url": evil, "json": {"a": [{"$secret": "SHOP_TOKEN"}]}},
            {"url": f"http://shop.test:{server.port}", "headers": {"X-Key": bearer}},
            {"url": f"http://a.mall.test:{server.port}", "json": {"$secret": "SHOP_TOKEN"}},
            {"url": server.url, "headers": {"X-Key": {"$secret": "OTHER_TOKEN"}}},
            {"config": "gone"},
        )
        assert len(server.asked) == 1
    echoed = app.result(jobs[0].id).value
    assert (echoed["status"], echoed["body"], echoed["withheld"]) == (
        200,
        None,
        "the answer holds the value of a secret",
    )
    for job, reason in zip(
        jobs[1:],
        (
            "the secret SHOP_TOKEN is not for the host evil.test here",
            "the secret SHOP_TOKEN is not for the host evil.test here",
            "the secret SHOP_TOKEN is not sent to shop.test in clear text: give an https:// URL",
            "the secret SHOP_TOKEN is not sent to a.mall.test in clear text: give an https:// URL",
            "the secret OTHER_TOKEN is not given to connector.http.request",
            "the secret GONE_KEY is not given to connector.http.request",
        ),
        strict=True,
    ):
        # another worker may have it, or this one may get it: tried again
        assert job.error.startswith(reason), job.error
        assert job.status == "scheduled"
    for payload in (
        {"url": "https://a.example", "headers": {"Authorization": "Bearer abc"}},
        {"url": "https://a.example", "headers": {"X-Key": {"$secret": "HEADWAY_WEBHOOK_SECRET"}}},
        {"url": "https://a.example", "path": "/x"},
        {"config": "shop", "path": "//evil.test/"},
        {"config": "shop", "path": "/a/%2e%2E/b"},
        {"url": "https://a.example", "json": 1, "text": "2"},
        {"url": "https://a.example", "method": "GET", "json": 1},
        {"url": "https://a.example", "base64": "%"},
        {"url": "https://a.example", "redirects": 6},
        {"url": "https://a.example", "timeout": "1h"},
        {"url": "https://a.example", "proxy": "http://b.example"},
        {"url": "file:///etc/passwd"},
        {"config": "shop", "url": "https://a.example"},
        {},
    ):
        with pytest.raises(InvalidPayload):
            app.enqueue(KIND, payload)


def test_a_configuration_is_its_tenants_and_read_when_the_request_starts(app: Headway) -> None:
    def script(asked: Asked) -> bytes:
        # changed while the first request is under way
        if asked.target == "/first":
            app.change_connector("shop", url="http://127.0.0.2:9", tenant="acme")
        return answer(200)

    with serving(script) as server:
        app.create_connector("shop", server.url, tenant="acme")
        app.create_connector("off", server.url, tenant="acme", enabled=False)
        app.create_connector("hook", server.url, tenant="acme", kind="connector.webhook.deliver")
        assert ran(app, {"config": "shop", "path": "/first"}, tenant="acme")[0].status == "succeeded"
        (changed,) = ran(app, {"config": "shop"}, tenant="acme")
        theirs, off, hook, missing = (
            *ran(app, {"config": "shop"}, tenant="globex"),
            *ran(app, {"config": "off"}, {"config": "hook"}, {"config": "none"}, tenant="acme"),
        )
        assert len(server.asked) == 1
    assert (changed.status, "127.0.0.2 is loopback" in changed.error) == ("dead", True)
    assert theirs.error.startswith('tenant globex has no connector "shop" for connector.http.request')
    assert off.error.startswith('connector "off" is disabled: headway connectors change off --enable')
    assert hook.error.startswith('tenant acme has no connector "hook"')
    assert {job.status for job in (theirs, off, hook, missing)} == {"dead"}


def test_a_cancel_or_a_timeout_closes_the_socket(app: Headway) -> None:
    async def run(server: Any) -> None:
        async with app.working():
            slow = await app.aenqueue(KIND, {"url": server.url, "timeout": "50ms"})
            stuck = await app.aenqueue(KIND, {"url": server.url})
            for _ in range(2):
                await asyncio.to_thread(server.came.acquire, timeout=20)
            await app.acancel(stuck.id)
            for asked in server.asked:
                # the server sees the end of its connection
                assert await asyncio.to_thread(asked.closed.wait, 20)
            assert (await app.await_(stuck.id, timeout="20s")).status == "canceled"
            (attempt, *_) = await app.aattempts(slow.id)
            assert attempt.error == f"127.0.0.1:{server.port} did not answer within 0.05 s"
        await app.aclose()

    with serving(lambda asked: None) as server:
        asyncio.run(run(server))


def test_tls_asks_for_the_name_and_believes_only_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = make_certificate(tmp_path, "shop.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: real("127.0.0.1" if str(host).endswith(".test") else host, *a, **k)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    exchanges = Exchanges([ip_network("127.0.0.1/32")])

    def send(host: str) -> Any:
        url = read_url(f"https://{host}:{server.port}/")
        return asyncio.run(exchanges.send(Request(method="GET", url=url, headers=lambda *_: [])))

    with serving(lambda asked: answer(200, "hi"), context) as server:
        assert send("shop.test").body == b"hi"
        with pytest.raises(ConnectorFailed, match="CERTIFICATE_VERIFY_FAILED") as failed:
            send("other.test")
        assert failed.value.retry
        assert server.sni == ["shop.test", "other.test"]
        assert [each.headers["host"] for each in server.asked] == [f"shop.test:{server.port}"]


def test_a_redirect_to_another_origin_leaves_secrets_behind(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-of-the-shop")
    headers = {"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}], "X-Account": "7"}
    with (
        serving(lambda asked: answer(200, "there")) as other,
        serving(lambda asked: answer(int(asked.target[1:4]), location=f"{other.url}/to")) as first,
    ):
        jobs = ran(
            app,
            {"url": f"{first.url}/303", "json": {"a": 1}, "headers": headers, "redirects": 1},
            {"url": f"{first.url}/307", "json": {"a": 1}, "headers": headers, "redirects": 1},
            {"url": f"{first.url}/308", "json": {"a": {"$secret": "SHOP_TOKEN"}}, "redirects": 1},
        )
        came = sorted(other.asked, key=lambda each: each.method)
    assert [job.status for job in jobs] == ["succeeded", "succeeded", "dead"]
    assert [(each.method, each.body) for each in came] == [("GET", b""), ("POST", b'{"a":1}')]
    assert all("authorization" not in each.headers and each.headers["x-account"] == "7" for each in came)
    assert "content-type" not in came[0].headers
    assert "redirects a body that holds a secret" in jobs[2].error
    assert app.result(jobs[0].id).value["redirects"] == 1
    assert read_url(app.result(jobs[0].id).value["url"]).port == other.port


def test_an_answer_is_kept_as_an_artifact_unless_it_repeats_a_secret(
    app: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-of-the-shop")
    image = bytes(range(256)) * 20
    said = {
        "/image": answer(200, image, content_type="image/png"),
        "/odd": answer(200, image, content_type="no type at all"),
        "/empty": answer(204),
        "/plain": answer(200, b"\xff you sent s3cret-of-the-shop", content_type="text/plain"),
        "/escaped": answer(200, rb'{"you sent": "\u00733cret-of-the-shop"}', content_type="application/json"),
        "/gone": answer(404, "no such image"),
    }
    with serving(lambda asked: said[asked.target]) as server:
        headers = {"X-Key": {"$secret": "SHOP_TOKEN"}}
        payloads: list[dict[str, Any]] = [
            {"url": server.url + path, "keep": "artifact", "headers": headers} for path in said
        ]
        payloads[1]["max_response"] = 300
        jobs = ran(app, *payloads)
    assert [job.status for job in jobs] == ["succeeded"] * 5 + ["dead"], [job.error for job in jobs]
    values = [app.result(job.id).value for job in jobs[:5]]
    kept = [app.artifacts(job.id) for job in jobs]
    assert [len(each) for each in kept] == [1, 1, 1, 0, 0, 0]
    for value, (file,), body in zip(values, kept, (image, image[:300], b""), strict=False):
        assert (value["artifact"], value["size"], value["sha256"]) == (file.id, len(body), file.sha256)
        assert (value["body"], file.name) == (None, "response")
        with app.open_artifact(file.id) as stored:
            assert stored.read() == body
    assert [file.content_type for (file,) in kept[:2]] == ["image/png", "application/octet-stream"]
    assert [value["truncated"] for value in values] == [False, True, False, False, False]
    for value in values[3:]:
        assert value["withheld"] == "the answer holds the value of a secret"
        assert (value["body"], "artifact" in value) == (None, False)
