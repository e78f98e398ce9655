"""Large bodies are decoded beside the event loop, so that other requests are answered meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from headway import Headway
from headway.api import application
from headway.api.chapters.enqueue import BatchIn
from headway.api.wire.bodies import LARGE, decode_body
from headway.api.wire.problems import Refused
from tests.api.conftest import Client


def test_a_large_batch_is_decoded_in_a_thread(
    app: Headway, client: Callable[[str | None], Client], keys: dict[str, str], monkeypatch: Any
) -> None:
    threads: list[int] = []
    decode = application.decode_body

    def noted(*given: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return decode(*given, **options)

    monkeypatch.setattr(application, "decode_body", noted)
    ask = client(keys["producer"])
    job = {"kind": "report", "payload": {"text": "x" * 2_000}}
    small, large = ask.post("/jobs", json=job), ask.post("/jobs/batch", json={"jobs": [job] * 120})
    assert (small.status_code, large.status_code, len(large.json()["jobs"])) == (201, 201, 120)
    assert ask.post("/jobs/batch", json={"jobs": [job] * 120, "more": 1}).status_code == 422
    here = threading.get_ident()
    assert [each == here for each in threads] == [True, False, False]


PAD = b'"' + b"x" * LARGE + b'"'
WRONG = {
    b'{"a":1,"a":1,"p":%s}': "400 the JSON names 'a' twice in one object",
    b'{"p":%s,"a":1,"a":1}': "400 the JSON names 'a' twice in one object",
    b'{"p":%s,"a":1, "p":2}': "400 the JSON names 'p' twice in one object",
    b'{"a" : {"b":1,"b":2}, "p":%s}': "400 the JSON names 'b' twice in one object",
    b'{"l":[{"p":%s},{"q":{"z":2,"z":1}}]}': "400 the JSON names 'z' twice in one object",
    b'{"p":%s,"x":[{"c\\u0000":1}]}': "422 the JSON holds a NUL character",
    b'{"p":%s,"d\\u0000":1}': "422 the JSON holds a NUL character",
    b'{"p":%s,"d":["\\u0000"]}': "422 the JSON holds a NUL character",
    b'[{"p":%s}]': "422 the body is not valid",
    b'{"p":%s,}': "400 the body is not JSON in UTF-8",
    b'{"p":%s,"d":"\\ud800"}': "400 the JSON holds half of a surrogate pair",
    b'{"p":%s,"n":' + b"[" * 90 + b"]" * 90 + b"}": "400 the JSON is nested more than",
    b'{"n":' + b'{"a":' * 90 + b"%s" + b"}" * 90 + b"}": "400 the JSON is nested more than",
    b'{"n":' + b"[" * 90 + b"%s" + b"]" * 90 + b"}": "400 the JSON is nested more than",
}
FINE = (
    b'{"p":%s}',
    b' { "p" : %s , "[1]" : [1], "1":1, "\\"}{":"a" }\n',
    b'{"a":"a","b":"b","p":%s,"c":[[%s,{}],{"p":%s}]}',
    b'{"1":1,"n":[1,[],{"x":{"x":%s}}],"x":"x:\\\\"}',
)


@pytest.mark.parametrize("pad", [b'""', PAD], ids=["small", "large"])
def test_a_body_is_refused_for_the_same_whatever_its_size(pad: bytes) -> None:
    for body, said in WRONG.items():
        with pytest.raises(Refused) as refused:
            decode_body(body.replace(b"%s", pad), None, dict[str, Any])
        assert f"{refused.value.status} {refused.value.detail}".startswith(said), body
    for body in FINE:
        whole = body.replace(b"%s", pad)
        assert decode_body(whole, None, dict[str, Any]) == json.loads(whole)


def test_a_large_body_is_read_once_and_in_parts(monkeypatch: Any) -> None:
    read: list[int] = []
    decode = msgspec.json.decode

    def noted(text: Any, **options: Any) -> Any:
        read.append(len(text))
        return decode(text, **options)

    monkeypatch.setattr(msgspec.json, "decode", noted)
    job = {"kind": "report", "payload": {"rows": [{"n": n} for n in range(1_000)]}}
    for wrong in ({}, {"one": 1, "two": 2, "three": 3}):
        body = msgspec.json.encode({"jobs": [job | wrong] * 100})
        read.clear()
        with pytest.raises(Refused) if wrong else nullcontext() as refused:
            decode_body(body, None, BatchIn)
        if refused is not None:
            assert [fault.pointer for fault in refused.value.faults] == ["/jobs/0/one"]
        parts = [size for size in read if size < len(body)]
        assert (read.count(len(body)), max(parts) < LARGE, sum(parts) < len(body)) == (1, True, True)
