"""Fingerprints: the same error is recognised whatever numbers, hosts and releases it names; other errors are not."""

from __future__ import annotations

import pytest

from headway.model.error_groups import MESSAGE_CHARS, excerpt, identify
from headway.worker.error_text import error_text

PYTHON = """{type}: no user {n}

Traceback (most recent call last):
  File "/srv/releases/{n}/shop/jobs.py", line {n}, in send_mail
    mail(user)
  File "/srv/releases/{n}/shop/mail.py", line 1{n}, in {function}
    smtp.send(user)
  File "/usr/lib/python3.12/site-packages/smtp/client.py", line {n}, in send
    raise {type}(f"no user {{n}}")
{type}: no user {n}
"""
NODE = """TypeError: user {n} is undefined
    at {function} (/srv/{n}/shop/mail.js:{n}:17)
    at run (/srv/{n}/node_modules/queue/index.js:1:{n})
"""


def of(text, kind="mail", status="failed"):
    return identify(kind, status, text).fingerprint


def python(n=17, raised="KeyError", function="connect"):
    return PYTHON.format(n=n, type=raised, function=function)


def test_the_same_error_has_one_fingerprint_whatever_changes_from_time_to_time():
    alike = [
        [python(n) for n in (17, 4711)],
        [NODE.format(n=n, function="send") for n in (3, 99)],
        [f"no user {n} named '{name}' on web-{n}" for n, name in ((1, "Ann"), (22, "Bo Li"))],
        [f"exit code 3: cannot open /tmp/x{n}f: 0x{n:x} {n}.{n} s" for n in (9, 1234)],
        ["job 0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10 is late", "job 11111111-6a0e-7c3e-b8f1-2f9f4f1d5a10 is late"],
    ]
    prints = []
    for texts in alike:
        found = {of(text) for text in texts}
        assert len(found) == 1, texts
        prints += found
    assert len(set(prints)) == len(alike)
    assert of("lost with its worker web-1:7", status="lost") == of("lost with its worker db:99", status="lost")
    assert of("timed out after 3s", status="timeout") == of("timed out after 1m", status="timeout")


def test_another_type_place_kind_or_end_is_another_error():
    different = [
        of(python()),
        of(python(raised="ValueError")),
        of(python(function="login")),
        of(python(), kind="report"),
        of(NODE.format(n=1, function="send")),
        of(NODE.format(n=1, function="login")),
        of("no user 17"),
        of("no group 17"),
        of("no user 17", status="timeout"),
        of("no user 17", status="lost"),
    ]
    assert len(set(different)) == len(different)


def test_what_is_shown_is_the_type_the_applications_own_frame_and_the_first_line():
    found = identify("mail", "failed", python())
    assert (found.type, found.place, found.message) == ("KeyError", "shop/mail.py in connect", "KeyError: no user 17")
    bare = python().partition("\n\n")[2]  # as workers over HTTP send it
    assert identify("mail", "failed", bare) == identify("mail", "failed", python())
    found = identify("mail", "failed", NODE.format(n=1, function="send"))
    assert (found.type, found.place) == ("TypeError", "shop/mail.js in send")
    found = identify("mail", "failed", "ConnectionError: refused\nmore")
    assert (found.type, found.place, found.message) == ("ConnectionError", None, "ConnectionError: refused")
    assert identify("mail", "failed", None).message == identify("mail", "failed", "\n ").message


def test_what_a_worker_writes_is_grouped_by_the_function_that_raised():
    def raised(n, function):
        try:
            function(n)
        except Exception as error:
            return error_text(error)

    def one(n):
        raise LookupError(f"nothing at {n}")

    def other(n):
        try:
            one(n)
        except LookupError as error:
            raise RuntimeError(f"cause {n}") from error

    def deep(n):
        return deep(n - 1) if n else one(n)

    assert of(raised(1, one)) == of(raised(2, one))
    assert of(raised(1, other)) == of(raised(2, other)) != of(raised(1, one))
    assert of(raised(50, deep)) == of(raised(60, deep))
    found = identify("mail", "failed", raised(1, other))
    assert found.type == "RuntimeError"
    assert found.place is not None
    assert found.place.startswith("model/test_error_groups.py in ")


@pytest.mark.parametrize(
    "text",
    [
        "\0" * 30_000,
        "\ud800 lone",
        "x" * 2_000_000,
        "'" * 20_000,
        "\n" * 20_000,
        " at " * 20_000,
        'File "' * 5_000,
        '  File "x", line 1, in y\n' * 3_000,
        "Traceback (most recent call last):\n" + " \n" * 6_000,
        "1-" * 20_000,
    ],
    ids=range(10),
)
def test_hostile_texts_are_grouped_too(text):
    kept = excerpt(text)
    assert kept is not None
    assert len(kept) <= 4_096 + 3 + 8_192
    found = identify("mail", "failed", kept)
    assert len(found.fingerprint) == 16
    assert 0 < len(found.message) <= MESSAGE_CHARS
