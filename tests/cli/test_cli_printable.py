"""Whatever a payload, an error, a name or a log line holds, it does not drive the terminal of those who read it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from headway import Context, Headway, logs
from headway.printable import printable, printable_json, printable_line
from headway.testing import drain
from tests.cli.conftest import Cli

BAD = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt.exe\u2066\u200f\ufeff\x08\x7f"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt.exe\u2066\u200f\ufeff\x08\x7f"


def _unsafe(text: str) -> set[str]:
    return set(text) & (set(BAD) - set("[2J]0;owned31mtxt.e"))


def test_what_drives_a_terminal_is_shown_as_escapes() -> None:
    assert printable(BAD) == SHOWN
    assert printable("a\r\nb\rc\td\u2028e\ud800") == "a\nb\\rc\td\\u2028e\\ud800"
    assert printable_line("a\nb\tc\r\n") == r"a\nb\tc\r\n"


@pytest.mark.parametrize("text", ["", "plain\n\ttext", "Grüße 🚂 👨‍👩‍👧 日本語 العربية", "\\x1b"])
def test_what_does_not_stays(text: str) -> None:
    assert printable(text) is text
    assert printable_json(text) is text


@given(st.text())
def test_json_says_the_same(text: str) -> None:
    written = printable_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}
    assert printable(written) == written


@pytest.fixture
def hostile(cli: Cli, either: Headway) -> str:
    @either.job(max_attempts=1)
    def fails(ctx: Context, text: str) -> None:
        ctx.log(f"log {text}")
        raise ValueError(f"error {text}")

    job = fails.using(meta={BAD: BAD}, unique_key=f"key {BAD}").enqueue(text=BAD)
    drain(either)
    either.hold_train(f"train {BAD}", reason=f"reason {BAD}")
    either.emit("mail.came", {BAD: BAD})
    return job.id


def test_commands_show_escapes(cli: Cli, hostile: str) -> None:
    pages = [
        cli.ok("jobs", "list"),
        cli.ok("jobs", "show", hostile),
        cli.ok("jobs", "why", hostile),
        cli.ok("jobs", "logs", hostile),
        cli.ok("trains", "list"),
        cli.ok("events", "list"),
    ]
    for page in pages:
        assert not _unsafe(page), page
    assert any(r"\u202etxt.exe" in page for page in pages)


def test_json_is_data(cli: Cli, hostile: str) -> None:
    answer = cli.ok("jobs", "show", hostile, "--json")
    assert not _unsafe(answer)
    assert json.loads(answer)["payload"] == {"text": BAD}


def test_refusals_show_escapes(cli: Cli, either: Headway) -> None:
    assert not _unsafe(cli("jobs", "list", "--kind", BAD).output)
    assert not _unsafe(cli("jobs", "show", BAD).output)
    assert not _unsafe(cli("jobs", "show", BAD, "--json").output)


@pytest.fixture(params=["terminal", "embedded", "json"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    if request.param == "embedded":
        root.handlers[:] = [logging.StreamHandler(stream)]
        root.setLevel("INFO")
    else:
        logs.configure("info", json=request.param == "json", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


class Odd:
    def __repr__(self) -> str:
        return BAD


def test_worker_logs_show_escapes(log: io.StringIO) -> None:
    logger: Any = logs.get_logger("headway.job")
    logger.info(f"event {BAD}\n12:00:00 [info] forged", value=BAD, many=[BAD], odd=Odd())
    try:
        raise ValueError(BAD)
    except ValueError:
        logger.error("failed", exc_info=True)
    assert not _unsafe(log.getvalue())
    assert "\n12:00:00 [info] forged" not in log.getvalue()
    assert "forged" in log.getvalue()
    assert "txt.exe" in log.getvalue()
