"""An artifact's name is a plain file name on every system, and its content type is one."""

from __future__ import annotations

import pytest

from headway.errors import InvalidArtifact
from headway.model.artifact import checked_name, checked_type

HOSTILE = (
    *("", " ", ".", "..", "../x", "a/../b", "/etc/passwd", "a/b", "a\\b", "..\\..\\x", "C:\\x", "c:x", "x:stream"),
    *("a\0b", "a\nb", "\x1b[31m", "a\x7f", "a\x85b", "report\u202efdp.exe", "a\u200bb", "a\u2028b", "\ud800", "\ufdd0"),
    *(
        "x" * 256,
        "é" * 128,
        "x" * 4_096,
        ".bashrc",
        " x",
        "x ",
        "x.",
        "-x\r\nSet-Cookie: a=b",
        'a"b',
        "a*b",
        "a?",
        "a|b",
        "<x>",
    ),
    *("CON", "con", "nul.txt", "Aux.tar.gz", "COM1", "lpt9.csv", "com¹.txt", "CONIN$", "con .txt", ".result.json"),
    *(7, None, b"x", ["x"]),
)
PLAIN = (
    "report.csv",
    "Bericht März.pdf",
    "報告.html",
    "🙂.txt",
    "-rf",
    "a..b",
    "console.log",
    "x" * 255,
    "com10.txt",
    "~x",
    "$(x)",
)


def test_only_plain_file_names_are_names() -> None:
    for name in HOSTILE:
        with pytest.raises(InvalidArtifact) as refused:
            checked_name(name)
        assert len(str(refused.value)) < 400
        assert "\x1b" not in str(refused.value)
    assert [checked_name(name) for name in PLAIN] == list(PLAIN)
    assert checked_name("e\u0301.txt") == "é.txt"  # one name, however its letters were typed


def test_a_content_type_is_guessed_or_checked() -> None:
    names = ("a.csv", "a.html", "a.json", "a.tar.gz", "a", "a.unknown-thing")
    octets = "application/octet-stream"
    assert [checked_type(None, name) for name in names] == ["text/csv", "text/html", "application/json", *[octets] * 3]
    for given in ("text/csv", "text/html; charset=utf-8", "application/vnd.api+json"):
        assert checked_type(given, "x") == given
    for wrong in ("csv", "", "text/csv\r\nX: y", "text/" + "x" * 300, "a/b; c", 7, "text/ü"):
        with pytest.raises(InvalidArtifact, match="media type"):
            checked_type(wrong, "x")
