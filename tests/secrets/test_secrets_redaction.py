"""Redaction: known values in every form, and what looks like a secret; and what is neither stays as it is."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from urllib.parse import quote, quote_plus

import pytest

from headway import secrets
from headway.secrets import redact
from headway.secrets.values import add_resolved

VALUE = 'kx7/Q+"z9 \\é%mw&2'


def test_a_known_value_is_redacted_wherever_it_stands() -> None:
    add_resolved("kx7Qz9mw2")
    assert redact("kx7Qz9mw2") == "[redacted]"
    assert redact("a kx7Qz9mw2, bkx7Qz9mw2c\nkx7Qz9mw2kx7Qz9mw2") == "a [redacted], b[redacted]c\n[redacted]"
    assert redact("kx7Qz9mw") == "kx7Qz9mw"


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        json.dumps(json.dumps({"deep": VALUE})),
        repr(VALUE),
        repr(VALUE.encode()),
        repr({"a": [VALUE]}),
        quote(VALUE),
        quote(VALUE, safe=""),
        re.sub("%..", lambda escape: escape[0].lower(), quote(VALUE, safe="")),
        quote_plus(VALUE),
        html.escape(VALUE),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_each_spelling_of_a_known_value_is_redacted(written: str) -> None:
    add_resolved(VALUE)
    clean = redact(f"before {written} after")
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert "[redacted]" in clean
    for piece in ("kx7", "z9", "mw", "MW", base64.b64encode(VALUE.encode()).decode()[2:-4], VALUE.encode().hex()[:8]):
        assert piece not in clean


@pytest.mark.parametrize("user", ["a", "ab", "abc", "service"])
def test_base64_of_a_text_that_holds_it_is_redacted_at_every_alignment(user: str) -> None:
    add_resolved("kx7Qz9mw2rT5")
    coded = base64.b64encode(f"{user}:kx7Qz9mw2rT5:x".encode()).decode()
    clean = redact(f"sent {coded}")
    assert "[redacted]" in clean
    # what is left at the ends are parts of single characters
    assert len(clean) <= len("sent [redacted]") + len(base64.b64encode(f"{user}:".encode())) + 8


def test_overlapping_values_leave_no_piece_of_either() -> None:
    add_resolved("abcdefgh")
    add_resolved("efghijkl")
    add_resolved("cdef")
    assert redact("xabcdefghijklx") == "x[redacted]x"
    assert redact("xefghijkl-cdefx") == "x[redacted]-[redacted]x"


def test_a_short_value_is_not_looked_for() -> None:
    add_resolved("abc")
    add_resolved("  a ")
    assert redact("abc a abc") == "abc a abc"


def test_the_lines_of_a_long_value_are_values_too() -> None:
    add_resolved("-----BEGIN THING-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END THING-----\n")
    assert redact("read MIIEvQIBADANBgkqhkiG9w0B and") == "read [redacted] and"


def test_the_secret_fields_of_a_document_are_values_too() -> None:
    add_resolved(json.dumps({"type": "service_account", "private_key": "line-one-kx7Qz9mw2\nline-two-rT5Qz9mw2\n"}))
    assert redact("service_account line-two-rT5Qz9mw2") == "service_account [redacted]"


# what the environment knows


def test_variables_with_secret_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kx7Qz9mw2rT5"
    assert redact(text) == text
    monkeypatch.setenv("PLANTED_TOKEN", text)
    assert redact(text) == "[redacted]"
    monkeypatch.setenv("PLANTED_TOKEN", "other-" + text)
    assert redact(text) == text
    monkeypatch.delenv("PLANTED_TOKEN")
    monkeypatch.setenv("PLANTED_PLACE", text)
    assert redact(text) == text


def test_passwords_in_the_urls_of_variables_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEWHERE", "postgresql://app:kx7%2FQz9mw2@db.example.com:5432/main")
    assert redact("app kx7/Qz9mw2 kx7%2FQz9mw2 db.example.com") == "app [redacted] [redacted] db.example.com"


@pytest.mark.parametrize("value", ["short", "postgres", "changeme", "PASSWORD"])
def test_what_every_developer_has_in_the_environment_is_not_hidden(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", value)
    assert redact(f"a {value} b") == f"a {value} b"


def test_a_variable_that_names_a_file_is_not_hidden(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_KEY", str(tmp_path))
    assert redact(f"open {tmp_path}") == f"open {tmp_path}"


# what looks like a secret

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgres://app:p4ss@db/x", "postgres://app:[redacted]@db/x"),
        ("redis://:p4ss@db:6379/0", "redis://:[redacted]@db:6379/0"),
        ("amqp://u:p@ss:w/rd@host/v", "amqp://u:[redacted]@host/v"),
        ("https://0123456789abcdef0123@o1.ingest.io/1", "https://[redacted]@o1.ingest.io/1"),
        ("a://u:p1@h b://u:p2@h", "a://u:[redacted]@h b://u:[redacted]@h"),
        ("password=hunter2 user=x", "password=[redacted] user=x"),
        ("PASSWORD: hunter2", "PASSWORD: [redacted]"),
        ("db_password = 'hunter 2' next", "db_password = '[redacted]' next"),
        ('{"password": "hun\\"ter2", "user": "x"}', '{"password": "[redacted]", "user": "x"}'),
        ("{'token': 'abc def', 'n': 1}", "{'token': '[redacted]', 'n': 1}"),
        (r'"{\"api_key\": \"abc\", \"n\": 1}"', r'"{\"api_key\": \"[redacted]\", \"n\": 1}"'),
        ("?token=abc&user=x", "?token=[redacted]&user=x"),
        ("X-Api-Key: abc", "X-Api-Key: [redacted]"),
        ("--password=hunter2", "--password=[redacted]"),
        ("Server=h;Pwd=hunter2;Db=x", "Server=h;Pwd=[redacted];Db=x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted]"),
        ("{'Authorization': 'Bearer abc'}", "{'Authorization': '[redacted]'}"),
        ("curl -H Bearer 0123456789abcdef x", "curl -H Bearer [redacted] x"),
        ("sent Basic dXNlcjpwYXNz to", "sent Basic [redacted] to"),
        ("Set-Cookie: sid=abc; Path=/\nnext", "Set-Cookie: [redacted]\nnext"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA[redacted]"),
        ("ghp_" + "a1B2" * 9, "ghp_[redacted]"),
        ("github_pat_" + "a1B2" * 9, "github_pat_[redacted]"),
        ("glpat-" + "a1B2" * 5, "glpat-[redacted]"),
        ("xoxb-1234567890-abcdef", "xoxb-[redacted]"),
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_live_[redacted]"),
        ("key hw_prod_01abc_Zm9vYmFyYmF6 end", "key hw_prod_01abc_[redacted] end"),
        (f"jwt {JWT} end", "jwt eyJ[redacted] end"),
        (PEM, "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----"),
        (f"x {PEM[:45]}", "x -----BEGIN RSA PRIVATE KEY-----[redacted]"),
        ("İİ password=hunter2", "İİ password=[redacted]"),
    ],
)
def test_what_looks_like_a_secret_is_redacted(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://example.com:8080/path?mail=a@b.example",
        "http://[::1]:8080/a@b",
        "postgresql://app:…@db/main?password=…",
        "see https://example.com/@user and git@github.com:org/repo",
        "max_tokens=100 tokens: 5",
        "KeyError: 'token'",
        "password=None token: null secret=''",
        "def login(user: str, password: str) -> None:",
        "if token == expected:",
        "Basic authentication failed, bearer authentication too",
        "primary key=7, keyboard: qwerty, passed: 3",
        "PWD=/home/app",
        "std::secret::thing",
        "sk-learn and task-1 and whisk-abcdefghijklmnopqrstuvwxyz",
        "rowhw_a_b_cdefghijk",
        "0190a5b4-7c2e-7d52-8f9a-5b6c7d8e9fa0",
    ],
)
def test_what_looks_like_none_stays(text: str) -> None:
    assert redact(text) is text


# cuts


def test_a_cut_leaves_no_piece_of_a_secret() -> None:
    value = "kx7Qz9mw2rT5" * 3
    add_resolved(value)
    for before in range(3_990, 4_010):
        head = secrets.redact_head("x" * before + value + "y" * 9_000, 4_000)
        assert len(head) <= 4_000
        assert "kx7" not in head
        tail = secrets.redact_tail("x" * 9_000 + value + "y" * before, 4_000)
        assert len(tail) <= 4_000
        assert "rT5" not in tail
    many = (value + "-") * 2_000
    assert "kx7" not in secrets.redact_head(many, 5_000) + secrets.redact_tail(many, 5_000)


def test_cuts_of_short_texts() -> None:
    assert secrets.redact_head("abcdef", 4) == "abcd"
    assert secrets.redact_tail("abcdef", 4) == "cdef"
    assert secrets.redact_tail("abcdef", 0) == ""
    assert secrets.redact_tail("abc", 9) == "abc"


# cost

HOSTILE = {
    "urls": "x://a:" * 80_000 + "@",
    "users": "://a" * 120_000 + "@",
    "tokens": "-eyJ" * 120_000,
    "headers": ".eyJaaaaaaaaa" * 40_000,
    "words": "password" * 60_000,
    "assignments": "password=" * 55_000,
    "blanks": "password        " * 31_000,
    "quotes": 'password="' * 50_000,
    "escapes": 'password=\\"' * 45_000,
    "backslashes": "password\\" * 55_000,
    "bearers": "bearer " * 70_000,
    "basics": "basic aaaaaaaa=" * 33_000,
    "keys": "-----BEGIN PRIVATE KEY-----" * 18_000,
    "ours": "hw_a_b_" * 70_000,
    "one word": "A" * 500_000,
    "one user": "://" + "a" * 500_000,
    "one password": "://u:" + "p" * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_half_a_megabyte_of_hostile_text_is_no_trouble(name: str) -> None:
    started = time.process_time()
    redact(HOSTILE[name])
    # some 50 ms; anything that is not linear takes minutes
    assert time.process_time() - started < 3
