"""What secrets look like in text: passwords in URLs, assignments, headers, and tokens of well-known services.

A pattern is only tried on a text that holds one of its words, and takes a bounded number of steps from each position:
a hostile text costs no more than a long one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]


class _Pattern:
    """A regular expression whose group "it" is the secret, and words of which every match contains one."""

    def __init__(self, words: str, expression: str, *, flags: int = 0) -> None:
        self.words = tuple(words.split())
        self.expression = re.compile(expression, flags)


# the text as it is
_EXACT = (
    _Pattern(
        "://",
        # the password may hold an @ or, written carelessly, a slash; a port before a path is none
        r"""://(?:[^\s/?#:@"'<>\[\]]{0,256}:(?!\d{1,5}[/?#])(?P<it>(?:(?!://)[^\s"'<>`]){1,512})@"""
        r"""|(?P<only>[^\s/?#:@"'<>\[\]]{16,256})@)""",
    ),
    _Pattern("AKIA ASIA", r"A[KS]IA(?<![A-Za-z0-9]....)(?P<it>[0-9A-Z]{16})(?![0-9A-Za-z])", flags=re.DOTALL),
    _Pattern("ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_(?<![A-Za-z0-9]....)(?P<it>[A-Za-z0-9]{30,255})", flags=re.DOTALL),
    _Pattern("github_pat_", r"github_pat_(?P<it>[A-Za-z0-9_]{22,255})"),
    _Pattern("glpat-", r"glpat-(?P<it>[A-Za-z0-9_-]{20,255})"),
    _Pattern("xox", r"xox(?<![A-Za-z0-9]...)[abceoprs]-(?P<it>[A-Za-z0-9-]{10,512})", flags=re.DOTALL),
    _Pattern("hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<it>[A-Za-z0-9/_-]{10,255})"),
    _Pattern("k_live_ k_test_", r"[rsp]k_(?:live|test)_(?P<it>[A-Za-z0-9]{10,255})"),
    _Pattern("whsec_", r"whsec_(?P<it>[A-Za-z0-9+/=_-]{16,255})"),
    _Pattern(
        "hw_", r"hw_(?<![A-Za-z0-9_]...)[a-z0-9]{1,32}_[A-Za-z0-9-]{1,64}_(?P<it>[A-Za-z0-9_-]{8,255})", flags=re.DOTALL
    ),
    _Pattern("AIza", r"AIza(?<![A-Za-z0-9]....)(?P<it>[A-Za-z0-9_-]{35})", flags=re.DOTALL),
    _Pattern("ya29.", r"ya29\.(?P<it>[A-Za-z0-9_-]{20,2048})"),
    _Pattern("sk-", r"sk-(?<![A-Za-z0-9]...)(?P<it>[A-Za-z0-9_-]{20,512})", flags=re.DOTALL),
    _Pattern("npm_", r"npm_(?<![A-Za-z0-9]....)(?P<it>[A-Za-z0-9]{36})", flags=re.DOTALL),
    _Pattern("pypi-", r"pypi-(?P<it>[A-Za-z0-9_-]{50,1024})"),
    _Pattern("SG.", r"SG\.(?<![A-Za-z0-9]...)(?P<it>[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128})", flags=re.DOTALL),
    _Pattern("dop_v1_", r"dop_v1_(?P<it>[a-f0-9]{64})"),
    # not after a character of its own kind: each run is tried once
    _Pattern(
        "eyJ",
        r"eyJ(?<![A-Za-z0-9_-]...)(?P<it>[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{4,16384}(?:\.[A-Za-z0-9_-]{0,4096}){0,3})",
        flags=re.DOTALL,
    ),
    _Pattern(
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<it>(?:(?!-----END )[\s\S]){0,32768})",
    ),
)

_VALUE = (
    r"""(?P<it>"(?:[^"\\\n]|\\.){0,4096}|'(?:[^'\\\n]|\\.){0,4096}"""
    r"""|(?P<mark>\\{1,8}["'])(?:(?!(?P=mark))[^\n]){0,4096}|[^\s"'&;\\]{1,4096})"""
)
_NO_VALUE = re.compile(
    r"""(?:\\*["'])?(?:none|null|true|false|nil|undefined|str|bytes|any|\*+|…|\[redacted\])?[,)}\]:]*\Z"""
)

# the text in lower case
_LOWER = (
    _Pattern(
        "pass pwd secret token key credential authorization",
        r"(?:pass(?:word|wd|phrase|code)?|pwd(?![ =:]{1,4}/)|(?<!\$)secrets?|token|credentials?"
        r"|(?:api|access|secret|private|signing|encryption|account|auth|master|shared)[_-]?key|authorization)"
        r"""(?:\\{0,8}["'])?[ \t]{0,8}(?:=>|:=|=(?!=)|:)[ \t]{0,8}(?!:|//)"""
        r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ ]{1,4})?" + _VALUE,
    ),
    _Pattern("bearer basic", r"(?:bearer|basic)[ \t]{1,4}(?P<it>[a-z0-9._~+/-]{8,4096}=*)"),
    _Pattern("cookie:", r"cookie:[ \t]{0,8}(?P<it>[^\r\n]{1,8192})"),
    _Pattern("aws4-hmac", r"aws4-hmac-sha256[ \t](?P<it>[^\r\n]{1,2048})"),
)
_A_WORD = re.compile(r"[A-Z]?[a-z]*[.,]?\Z")


_EXACT_WORDS = tuple(word for pattern in _EXACT for word in pattern.words)
_LOWER_WORDS = tuple(word for pattern in _LOWER for word in pattern.words)


def spans(text: str) -> Iterator[Span]:
    """The spans of secrets in the text, in no order; they may overlap."""
    if _holds_one(_EXACT_WORDS, text):
        yield from _exact_spans(text)
    if _holds_one(_LOWER_WORDS, text.lower()):
        yield from _lower_spans(text)


def may_hold_one(text: str) -> bool:
    """Whether the text has one of the words without which `spans` finds nothing."""
    return _holds_one(_EXACT_WORDS, text) or _holds_one(_LOWER_WORDS, text.lower())


def _holds_one(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110 - any() takes ten times as long, and most texts hold none
        if word in text:
            return True
    return False


def _exact_spans(text: str) -> Iterator[Span]:
    for pattern in _EXACT:
        if any(word in text for word in pattern.words):
            for match in pattern.expression.finditer(text):
                group = "it" if match["it"] is not None else "only"
                if match[group] != "…":  # already masked in a URL
                    yield match.span(group)


def _lower_spans(text: str) -> Iterator[Span]:
    lower = text.lower()
    if len(lower) != len(text):
        # a few letters become two in lower case: leave those, so that positions stay the same
        lower = "".join(char if len(small := char.lower()) != 1 else small for char in text)
    for pattern in _LOWER:
        if any(word in lower for word in pattern.words):
            for match in pattern.expression.finditer(lower):
                start, end = match.span("it")
                if pattern.words[0] == "bearer" and _A_WORD.match(text[start:end]):
                    continue  # "basic authentication"
                if _NO_VALUE.match(lower, start, end):
                    continue
                # the quote at its beginning stays
                while start < end and text[start] in "\\\"'":
                    start += 1
                if start < end:
                    yield start, end
