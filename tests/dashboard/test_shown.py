"""How values are shown: exactly, and as text whatever is in them."""

from __future__ import annotations

import asyncio
import doctest
import json
import re
from datetime import UTC, datetime
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import secrets
from headway.dashboard import list_table, live
from headway.dashboard.drawn import chart
from headway.dashboard.shown import links, numbers, times
from headway.dashboard.shown.json_text import json_beginning, json_html, kept_secrets, masked_json, without_redacted
from headway.dashboard.shown.schema_form import inputs_of, payload_of
from headway.printable import printable

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
    max_leaves=60,
)


@pytest.mark.parametrize("module", [numbers, times, chart, list_table], ids=lambda module: module.__name__)
def test_the_examples_in_the_code(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@given(_JSON)
def test_json_is_shown_as_it_is_and_as_text(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    html = str(json_html(text))
    assert "<script" not in html
    shown = unescape(re.sub(r"<details><summary> \d+ lines</summary>|<[^>]+>", "", html))
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", printable(text))


@pytest.mark.parametrize("text", ["", "{", "]", '{"a": <script>}', "nonsense <b>", "[" * 5_000, '"\ud83d"'])
def test_what_is_no_json_is_shown_as_text(text: str) -> None:
    html = str(json_html(text))
    assert "<script" not in html
    assert "<b>" not in html


def test_numbers_of_a_form_are_stored_as_they_were_typed() -> None:
    schema = {
        "properties": {"n": {"type": "number"}, "to": {"type": "string"}, "ok": {"type": "boolean"}, "rest": {}},
        "required": ["n"],
    }
    typed = {"p.n": "1.500", "p.to": 'a "quoted"', "p.rest": "[1e999]"}
    assert payload_of(schema, typed) == '{"n": 1.500, "to": "a \\"quoted\\"", "ok": false, "rest": [1e999]}'
    again = inputs_of(schema, '{"n": 123456789012345678901234567890, "to": "x", "rest": {"a": 2.50}}', {})
    assert again is not None
    assert [each.value for each in again] == ["123456789012345678901234567890", "x", "", '{"a": 2.50}']


def test_what_is_or_looks_like_a_secret_is_masked_and_comes_back_when_left_alone() -> None:
    secrets.forget()  # what executions of other tests were given
    stored = (
        '{"to": "a", "password": "hunter2", "n": 1.50, "auth": {"token": [1, 2]}, '
        '"api_key": {"$secret": "KEY"}, "empty_token": ""}'
    )
    masked = masked_json(stored)
    assert masked == (
        '{"to": "a", "password": "[redacted]", "n": 1.50, "auth": {"token": "[redacted]"}, '
        '"api_key": {"$secret": "KEY"}, "empty_token": ""}'
    )
    assert "hunter2" not in json_html(stored)
    assert '<span class="masked">' in json_html(stored)
    looks = '{"note": "Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789"}'
    assert "abcdefghijklmnop" not in masked_json(looks)
    assert "abcdefghijklmnop" not in json_html(looks)
    assert json.loads(kept_secrets(masked.replace('"a"', '"b"'), stored)) == json.loads(stored) | {"to": "b"}
    assert kept_secrets(masked, None) == masked
    assert json.loads(without_redacted('{"a": 1, "b": "[redacted]"}')) == {"a": 1}
    for broken in ('{"password": ', '{"password": [1', '{"password": }', "hunter2 password=hunter2abc"):
        assert isinstance(masked_json(broken), str)


def test_secrets_are_masked_in_json_that_is_too_long_to_be_shown_whole() -> None:
    many = ", ".join(f'{{"n": {n}, "token": ["deep-{n}"], "name": "customer {n}"}}' for n in range(5_000))
    html = str(json_html(f'{{"password": "hunter2", "items": [{many}]}}'))
    assert "hunter2" not in html
    assert "deep-" not in html
    assert "customer 7&#34;" in html
    assert re.search(r"… \d{3},\d{3} more characters", html)
    whole = '{"a": 1.50, "password": ["hunter2", {"b": "hunter2"}], "note": "x \\" <b>"}'
    for end in range(len(whole)):
        cut = str(json_beginning(whole[:end]))
        assert "hunter2" not in cut, whole[:end]
        assert "<b>" not in cut


def test_the_times_and_the_command_of_a_sentence_are_told_apart() -> None:
    job = {"id": "0", "tenant": "acme", "queue": "mail", "train": None}
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    said = "it waits for <b> since 2026-01-02T11:00:00+00:00 in queue mail: headway machines signal 0 <b>"
    assert links.linked(said, job, lambda tenant, path: f"/{tenant}{path}", now) == (
        'it waits for &lt;b&gt; since <time datetime="2026-01-02T11:00:00Z" data-form="minute" '
        'title="2026-01-02 11:00:00 UTC">02 Jan, 11:00 UTC</time> in <a href="/acme/queues/mail">queue mail</a>: '
        "<code>headway machines signal 0 &lt;b&gt;</code>"
    )
    ways = "job 7 is dead: headway trains resume t goes on without it, headway jobs retry 7 with it"
    assert links.linked(ways, job, lambda tenant, path: path, now) == ways
    for other in ("at 99:99 UTC", "since 99:99 UTC", "2026-99-02T11:00:00Z", "it said 11:00 UTC"):
        assert times.timed(other, now) == other


def test_a_tab_that_opens_during_a_look_is_not_shown_what_is_older_than_its_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.001)

    async def looks() -> tuple[list[bytes], list[bytes]]:
        turns, first, second = live._Turns(), live.Tab(), live.Tab()
        began, go_on, count = asyncio.Event(), asyncio.Event(), 0

        async def parts() -> dict[str, str]:
            nonlocal count
            number, count = count, count + 1
            if number == 0:
                began.set()
                await go_on.wait()
            return {"live_n": str(number)}

        turns.add("page", parts, first)
        await began.wait()
        turns.add("page", parts, second)  # its page was made after the look began
        go_on.set()
        got = [await first.next()], [await second.next()]
        turns.end()
        return got

    (old,), (new,) = asyncio.run(looks())
    assert b'"0"' in old
    assert b'"0"' not in new
    assert b"live_n" in new
