"""Names that look like a secret's: of payload fields, log fields and environment variables."""

from __future__ import annotations

import re
from functools import lru_cache

# anywhere in the name, unless its last word is only about the secret, as in password_length
_STRONG = frozenset({"password", "passwords", "passwd", "passphrase", "passcode", "pwd"})
_ABOUT = re.compile(
    "age|algorithm|arn|at|attempts|backend|changed|class|count|days|enabled|expired|expires|expiry|field|file|form"
    "|header|hint|ids?|label|length|limit|max|min|mode|name|path|policy|prefix|prompt|provider|required|reset"
    "|rotation|rules|status|store|strength|ttl|type|updated|used|ur[il]|version"
)
# as the last word
_LAST = re.compile("secrets?|token|credentials?|creds|authorization|apikey|jwt|bearer|otp|cvv|cvc")
# before "key" as the last one
_KEYS = re.compile(
    "access|account|api|app|auth|client|consumer|encryption|hmac|master|private|secret|service|session|shared|signing"
    "|ssh|webhook"
)
_TRAILERS = frozenset({"hash", "value", "pem", "base64", "b64", "hex", "plain", "raw", "base"})
_RUN_TOGETHER = re.compile(
    r"(?:password|passwd|passphrase|secret|(?:auth|access|refresh|bearer|id|csrf|session)token"
    r"|(?:api|access|secret|private|signing|encryption)keys?)\Z"
)
_ENVIRONMENTS_LAST = frozenset({"key", "keys", "dsn", "pass", "auth", "pat", "salt", "cookie"})
# every secret name contains one of these: most names need no closer look
_HINTS = re.compile("pass|pwd|secret|token|cred|auth|key|jwt|bearer|otp|cvv|cvc", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret, judged by the name.

    >>> [is_secret_name(each) for each in ("smtp_password", "apiKey", "X-Auth-Token", "tokens_used", "key")]
    [True, True, True, False, False]
    """
    if _HINTS.search(name) is None:
        return False
    words = _words(name)
    if not words:
        return False
    if _ABOUT.fullmatch(words[-1]):
        return False
    if not _STRONG.isdisjoint(words):
        return True
    while len(words) > 1 and words[-1] in _TRAILERS:
        words = words[:-1]
    last = words[-1]
    if _LAST.fullmatch(last):
        return True
    if last in ("key", "keys") and len(words) > 1 and _KEYS.fullmatch(words[-2]):
        return True
    return _RUN_TOGETHER.search(last) is not None


@lru_cache(maxsize=4096)
def is_secret_variable(name: str) -> bool:
    """The same for an environment variable; less strict, since hiding too many of these costs little."""
    words = _words(name)
    return bool(words) and (is_secret_name(name) or words[-1] in _ENVIRONMENTS_LAST or words[-1].endswith("pass"))


def _words(name: str) -> tuple[str, ...]:
    words = tuple(word.lower() for word in _WORDS.findall(name[:256]))
    while len(words) > 1 and words[-1].isdigit():
        words = words[:-1]  # password2
    return words
