"""Secrets of commands: a program gets them, and no row, log or error shows them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from headway import secrets
from headway.commands import CommandKind
from headway.secrets import Vault
from tests.commands.command_scripts import run, script
from tests.worker_harness import WorkerHarness

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a subreaper and /proc")

Declare = Callable[..., CommandKind]


ONE, TWO = "s3cr3t-one-" + "qwertzuiop" * 3, "s3cr3t-two-" + "asdfghjkly" * 3


@pytest.mark.parametrize(
    "text",
    [
        'w(1, "arg " + one[:15]); time.sleep(0.7); w(1, one[15:] + "\\n" + two + "\\n")',
        'w(1, "x" * 70_000 + one + "y" * 65_500); w(2, two + "y" * 65_530)',
        'w(1, "x" * 8_180 + one); time.sleep(0.7); w(1, two[:20]); time.sleep(0.7); w(1, two[20:])',
        "for n in range(400): w(1, one + two * 200)",
        'w(1, json.dumps({"a": one, "b": [two]}))',
    ],
    ids=["cut by time", "cut by the tail", "cut by a piece", "cut by a gap", "in a result"],
)
def test_secrets_reach_the_program_and_nothing_else(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    monkeypatch.setenv("KEY_ONE", ONE)
    monkeypatch.setenv("KEY_TWO", TWO)
    text = f"""
import json, os, sys, time
one, two, three = sys.argv[1], os.environ["TWO"], json.loads(sys.stdin.read())["key"]
def w(fd, text):
    while text:
        text = text[os.write(fd, text.encode()):]
{text}
sys.exit(0 if text.startswith("w(1, json") else f"failed with {{one}} and {{two}}" if one == three else 77)
""".replace("text.startswith", repr(text) + ".startswith")
    kind = declare(
        lite,
        argv=script(text, "{key}"),
        set_env={"TWO": {"$secret": "KEY_TWO"}},
        params={"key": {"secret": True}},
        stdin="payload",
        result="json",
    )
    job, attempt = run(lite, kind, key={"$secret": "KEY_ONE"})
    if "json.dumps" in text:
        assert (job.status, attempt.exit_code) == ("dead", 0)
        assert job.error.startswith(
            "the result holds the value of the secret KEY_ONE at $.value.a, which is never stored"
        )
    else:
        assert attempt.exit_code == 1
        assert job.error.endswith("[redacted]" if "65_530" in text else "failed with [redacted] and [redacted]")
    assert job.payload == {"key": {"$secret": "KEY_ONE"}}
    stored = repr((job, attempt)) + caplog.text
    for value in (ONE, TWO):
        for begin in range(len(value) - 8):
            assert value[begin : begin + 8] not in stored


def test_a_result_that_looks_like_a_secret_is_stored_as_it_is(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SORT_KEY", "created_at")
    kind = declare(lite, argv=["/bin/echo", '{{"sort": "created_at", "header": "token=abc"}}'], result="json")
    job, attempt = run(lite, kind)
    assert job.result == {"exit_code": 0, "value": {"sort": "created_at", "header": "token=abc"}}
    assert attempt.stdout_tail == '{"sort": "[redacted]", "header": "token=[redacted]"}\n'


def test_a_param_takes_no_secret_that_is_not_declared_for_the_command(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_ONE", ONE)
    monkeypatch.setenv("KEY_TWO", TWO)
    lite.vault = Vault(secrets.read({"KEY_ONE": {"kinds": ["other"]}, "KEY_TWO": {"kinds": ["cmd"]}}, "headway.toml"))
    kind = declare(lite, argv=["/bin/echo", "{key}"], params={"key": {"secret": True}})
    job, _ = run(lite, kind, key={"$secret": "KEY_ONE"})
    assert job.error.startswith("the secret KEY_ONE is not given to cmd of tenant default here")
    job, _ = run(lite, kind, key={"$secret": "KEY_TWO"})
    assert job.status == "succeeded"


def test_a_secret_that_is_not_set_fails_and_is_tried_again(lite: WorkerHarness, declare: Declare) -> None:
    kind = declare(lite, argv=["/bin/echo", "{key}"], params={"key": {"secret": True, "pattern": "[a-z]+"}})
    job, _ = run(lite, kind, key={"$secret": "NOT_SET_ANYWHERE"})
    assert job.status == "scheduled"
    assert job.error.startswith("the secret NOT_SET_ANYWHERE is not set here")


@pytest.mark.parametrize("value", ["-dash-in-front", "UPPER-case-value", "x" * 5_000])
def test_a_secret_that_does_not_fit_is_not_shown(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("ODD_ONE", value)
    kind = declare(lite, argv=["/bin/echo", "{key}"], params={"key": {"secret": True, "pattern": "[a-z-]+"}})
    job, attempt = run(lite, kind, key={"$secret": "ODD_ONE"})
    assert (job.status, attempt.exit_code) == ("dead", None)
    secrets.forget()
    assert "key: " in job.error
    assert value not in job.error
