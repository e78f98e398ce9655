"""No request opens a socket to an address that is not public, however it is spelled; asserted where sockets connect."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from headway.connectors.addresses import fault
from headway.connectors.exchange import Answer, Exchanges, Request
from headway.errors import ConnectorFailed, InvalidJob
from headway.model.http_url import HttpUrl, read_url
from tests.connectors.loopback import answer, serving

ALLOWED = [ip_network("127.0.0.1/32")]
DENIED = """
127.0.0.1 127.0.0.2 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200
168.63.129.16 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.31.196.1
192.52.193.1 192.88.99.1 192.168.0.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0x7f.1 0177.0.0.1
017700000001 00000177.1 127.0.0.1. 0 0xa9fea9fe 2852039166 0251.0376.0251.0376 169.16689662 0x7f 127.0.0.0x1
①②⑦.⓪.⓪.① １２７.０.０.１ 127。0。0。1 127.0.0.1%00 127.0.0.1%2f localhost%2e [::1] [::] [::ffff:127.0.0.1]
[::ffff:7f00:1]
[::ffff:a9fe:a9fe] [::127.0.0.1] [::7f00:1] [0:0:0:0:0:0:0:1] [64:ff9b::7f00:1] [64:ff9b::169.254.169.254]
[64:ff9b:1::a00:1] [2002:7f00:1::] [2002:a9fe:a9fe::1] [2001:0:7f00:1::] [2001:db8::1] [2001:10::1]
[2620:4f:8000::1] [3ffe::1] [3fff::1] [5f00::1] [100::1] [fc00::1] [fd00:ec2::254] [fe80::1] [fe80::1%25lo]
[fe80::1%lo] [fec0::1] [ff02::1] [::ffff:0:127.0.0.1] localhost LOCALHOST localhost. ip6-localhost private.test
mixed.test mapped.test metadata.test nat64.test empty.test zone.test
""".split()  # noqa: SIM905 - one line each would be a page
TRICKS = [
    "http://user@127.0.0.1/",
    "http://public.test@127.0.0.1/",
    "http://127.0.0.1\\@public.test/",
    "http://public.test\\@127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "http:///127.0.0.1/",
    "http://127.0.0.1\t/",
    "http://127.0.\t0.1/",
    "http://127.0.0.1\n/",
    " http://127.0.0.1/",
    "http://\x00127.0.0.1/",
    "http://127.0.0.1:80:80/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:٨٠/",
    "http://127.0.0.1?@public.test/",
    "http://127.0.0.1#@public.test/",
    "http://[::1/",
    "http://[::1]x/",
    "http://localh\u00adost/",
    "http://\u2100localhost/",
    "http://xn--/",
    "http://.localhost/",
    "http://local..host/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "ftp://127.0.0.1/",
    "data:text/plain,x",
    "//127.0.0.1/",
    "",
]
NAMES = {
    "private.test": ["10.0.0.1"],
    "mixed.test": ["93.184.216.34", "192.168.0.1"],
    "mapped.test": ["::ffff:169.254.169.254"],
    "metadata.test": ["169.254.169.254"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "empty.test": [],
    "zone.test": ["fe80::1%lo"],
    "ip6-localhost": ["::1"],
    "localhost": ["127.0.0.1", "::1"],
    "allowed.test": ["127.0.0.1"],
}
_opened: list[Any] = []  # every address that any socket of this process was asked to connect to
_hooked = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        _opened.append(args[1])


class Resolver:
    """What the name system says, without asking it; texts that the C library reads as addresses are left to it."""

    def __init__(self) -> None:
        self.names = {name: [list(found)] for name, found in NAMES.items()}
        self.asked: list[str] = []

    def __call__(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        found = self.names.get(name.lower().rstrip("."))
        if found is None:
            return _real(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        addresses = found.pop(0) if len(found) > 1 else found[0]
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in addresses
        ]


_real = socket.getaddrinfo


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Filled below every client: by the interpreter itself, when a socket is about to connect."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_watch)
        _hooked = True
    _opened.clear()
    return _opened


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


_strict, _allowing = Exchanges(()), Exchanges(ALLOWED)


def send(url: HttpUrl, allowed: Any = (), **options: Any) -> Answer:
    request = Request(method="GET", url=url, headers=lambda host, foreign: [], timeout_s=5.0, **options)
    return asyncio.run((_allowing if allowed else _strict).send(request))


def test_every_spelling_of_an_address_that_is_not_public_opens_no_socket(opened: list[Any], resolver: Resolver) -> None:
    assert len(set(DENIED)) + len(TRICKS) >= 120
    refused = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for spelling in DENIED:
            for scheme in ("http", "https"):
                try:
                    url = read_url(f"{scheme}://{spelling}:{port}/")
                except InvalidJob:
                    refused += 1
                else:
                    with pytest.raises(ConnectorFailed) as failed:
                        send(url)
                    # a name that leads nowhere is a fault of the network; all else is the guard's word
                    assert failed.value.retry == (spelling == "empty.test"), spelling
            # below the reader of URLs the guard holds by itself
            with pytest.raises((ConnectorFailed, UnicodeError)):
                send(HttpUrl("http", spelling.strip("[]"), port, "/"))
        for trick in TRICKS:
            try:
                url = read_url(trick)
            except InvalidJob:
                refused += 1
            else:
                with pytest.raises(ConnectorFailed):
                    send(url)
        assert refused > 60
        assert opened == []
        # the same machinery does open one that is allowed, and the watch sees it
        request = Request(method="GET", url=HttpUrl("http", "127.0.0.1", port, "/"), headers=lambda *_: [])
        with pytest.raises(ConnectorFailed, match="failed"):
            asyncio.run(_hung_up(listener, Exchanges(ALLOWED), request))
        assert [each[0] for each in opened] == ["127.0.0.1"]


async def _hung_up(listener: socket.socket, exchanges: Exchanges, request: Request) -> None:
    asking = asyncio.create_task(exchanges.send(request))
    conn, _ = await asyncio.to_thread(listener.accept)
    conn.close()
    await asking


def test_public_addresses_pass_and_the_table_has_sharp_edges() -> None:
    for public in ("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"):
        assert fault(ip_address(public)) is None, public
    for public in ("168.63.129.15", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255"):
        assert fault(ip_address(public)) is None, public
    for public in ("198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1", "2001:200::1", "2a00::1"):
        assert fault(ip_address(public)) is None, public
    # allowing a network allows no other spelling of it
    allowed = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert fault(ip_address("127.0.0.9"), allowed) is None
    assert fault(ip_address("fd00::9"), allowed) is None
    assert fault(ip_address("::ffff:127.0.0.9"), allowed) is not None
    assert fault(ip_address("10.0.0.1"), allowed) is not None


def test_a_name_is_resolved_once_and_the_checked_address_is_connected(opened: list[Any], resolver: Resolver) -> None:
    resolver.names["rebinding.test"] = [["127.0.0.1"], ["127.0.0.2"]]
    with serving(lambda asked: answer(200, "hello")) as server:
        got = send(read_url(f"http://rebinding.test:{server.port}/a?b"), ALLOWED)
        assert (got.status, got.body, server.asked[0].headers["host"]) == (
            200,
            b"hello",
            f"rebinding.test:{server.port}",
        )
        assert resolver.asked == ["rebinding.test"]
        assert [each[0] for each in opened] == ["127.0.0.1"]
        # the next request asks again, and is refused
        with pytest.raises(ConnectorFailed, match="leads to an address that is loopback"):
            send(read_url(f"http://rebinding.test:{server.port}/"), ALLOWED)
    assert len(opened) == 1


def test_redirects_are_checked_like_the_first_request(opened: list[Any], resolver: Resolver) -> None:
    targets = [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.2:{port}/",
        "//127.0.0.2:{port}/",
        "http://metadata.test/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://2130706433:{port}/",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "javascript:alert(1)",
        "http://user@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}\\@public.test/",
        "\\\\127.0.0.2\\x",
    ]
    with serving(lambda asked: answer(302, location=asked.target[2:].replace("{port}", str(server.port)))) as server:
        for target in targets:
            with pytest.raises(ConnectorFailed) as failed:
                send(HttpUrl("http", "127.0.0.1", server.port, "/", f"?{target}"), ALLOWED, redirects=5)
            assert not failed.value.retry, target
        assert {each[0] for each in opened} == {"127.0.0.1"}
        assert len(opened) == len(targets)
        # off unless asked for
        assert send(HttpUrl("http", "127.0.0.1", server.port, "/", f"?{targets[0]}"), ALLOWED).status == 302
    hops = {f"/{hop}": f"http://allowed.test:{{port}}/{hop + 1}" for hop in range(9)}

    def hop(asked: Any) -> bytes:
        location = hops.get(asked.target, "").replace("{port}", str(server.port))
        return answer(307, location=location) if location and asked.target != "/5" else answer(200, "done")

    with serving(hop) as server:
        got = send(read_url(f"http://allowed.test:{server.port}/0"), ALLOWED, redirects=5)
        assert (got.status, got.redirects, got.url.path) == (200, 5, "/5")
        with pytest.raises(ConnectorFailed, match="redirects more than 4 times"):
            send(read_url(f"http://allowed.test:{server.port}/0"), ALLOWED, redirects=4)


def test_nothing_of_the_environment_is_used(
    opened: list[Any], resolver: Resolver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.2:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.2:9")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ann password hunter2hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving(lambda asked: answer(200, set_cookie="a=b")) as server:
        for _ in range(2):
            send(read_url(server.url), ALLOWED)
        assert {each[0] for each in opened} == {"127.0.0.1"}
        assert all(not {"authorization", "cookie"} & set(each.headers) for each in server.asked)
