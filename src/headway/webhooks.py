"""Webhooks by the Standard Webhooks specification: `verify` for receivers, and the signatures of the sender.

A message is signed as `id.timestamp.body`: `v1` is HMAC-SHA256 with a shared secret (`whsec_…`), `v1a` is ed25519,
which a receiver verifies with a public key (`whpk_…`). While a secret is rotated, one header holds several signatures.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import ConfigError, InvalidSignature

SECRET, PUBLIC_KEY = "whsec_", "whpk_"
TOLERANCE_S = 300
MASTER = "HEADWAY_WEBHOOK_SECRET"
"""The variable that holds the master secret, of which every endpoint's secret is derived."""
_SHORTEST_MASTER = 32


def verify(
    payload: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> Any:
    """The JSON of a webhook whose signature holds; raises `InvalidSignature`, and `ConfigError` for a secret that is
    none: an empty one would let anybody sign.

    `payload` is the body as it came, before any parsing. `secret` is one or several of `whsec_…` and `whpk_…`: while
    one is rotated, give both. `webhook-id` is the same whenever the message is sent again: remember it, and answer 2xx
    without doing the work twice.

    >>> import time
    >>> secret, now = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", int(time.time())
    >>> headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now)}
    >>> headers["webhook-signature"] = sign(secret, "msg_1", now, b'{"a": 1}')
    >>> verify(b'{"a": 1}', headers, secret)
    {'a': 1}
    """
    keys = _keys(secret)
    given = {name.lower(): value for name, value in headers.items()}
    message_id, stamp, signatures = (given.get(f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not message_id or not stamp or not signatures:
        raise InvalidSignature("webhook-id, webhook-timestamp or webhook-signature is missing")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
        raise InvalidSignature("webhook-timestamp is not a number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_s:
        raise InvalidSignature("webhook-timestamp is too far from now: it may be an old message that is sent again")
    body = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    signed = _signed(message_id, int(stamp), body)
    if not any(_holds(*key, signature, signed) for key in keys for signature in signatures.split(" ")):
        raise InvalidSignature("no signature in webhook-signature is of this body by this secret")
    return json.loads(body)


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message by a shared secret: `v1,…`."""
    mac = hmac.new(_key(secret, SECRET), _signed(message_id, timestamp, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mac).decode()}"


class EndpointKeys:
    """The keys of one version of an endpoint, derived from the master secret: nothing of them is stored."""

    def __init__(self, master: str, endpoint_id: str, version: int) -> None:
        if len(master) < _SHORTEST_MASTER:
            raise ConfigError(f"{MASTER} has less than {_SHORTEST_MASTER} characters: take openssl rand -base64 32")

        def derived(purpose: str) -> bytes:
            label = f"headway webhook {purpose}\0{endpoint_id}\0{version}"
            return hmac.new(master.encode(), label.encode(), hashlib.sha256).digest()

        self.secret = SECRET + base64.b64encode(derived("v1")).decode()
        self._seed = derived("v1a")

    @property
    def public_key(self) -> str:
        return PUBLIC_KEY + base64.b64encode(self._private().public_key().public_bytes_raw()).decode()

    def signature(self, scheme: str, message_id: str, timestamp: int, body: bytes) -> str:
        """By "v1" or "v1a"."""
        if scheme == "v1":
            return sign(self.secret, message_id, timestamp, body)
        signed = self._private().sign(_signed(message_id, timestamp, body))
        return f"v1a,{base64.b64encode(signed).decode()}"

    def _private(self) -> Any:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ModuleNotFoundError as error:
            raise ConfigError(
                "the keys of webhooks need cryptography: pip install 'headway-engine[connectors]'"
            ) from error
        return Ed25519PrivateKey.from_private_bytes(self._seed)


def _signed(message_id: str, timestamp: int, body: bytes) -> bytes:
    # what is no text is signed by nobody, and refused like any other forgery
    return f"{message_id}.{timestamp}.".encode("utf-8", "surrogatepass") + body


def _keys(secret: str | Sequence[str]) -> list[tuple[str, bytes]]:
    """Each secret's prefix and bytes."""
    secrets = [secret] if isinstance(secret, str) else list(secret or ())
    if not secrets:
        raise ConfigError("give verify a secret: whsec_… or whpk_…")
    prefixes = [PUBLIC_KEY if each.startswith(PUBLIC_KEY) else SECRET for each in secrets]
    return [(prefix, _key(each, prefix)) for prefix, each in zip(prefixes, secrets, strict=True)]


def _holds(prefix: str, key: bytes, signature: str, signed: bytes) -> bool:
    scheme, _, text = signature.partition(",")
    try:
        given = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    if prefix == PUBLIC_KEY:
        return scheme == "v1a" and _holds_ed25519(key, given, signed)
    return scheme == "v1" and hmac.compare_digest(hmac.new(key, signed, hashlib.sha256).digest(), given)


def _holds_ed25519(key: bytes, signature: bytes, signed: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature as Wrong
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as error:
        raise ConfigError("a public key needs cryptography: pip install 'headway-engine[connectors]'") from error
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except (Wrong, ValueError):
        return False
    return True


def _key(secret: str, prefix: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"the secret of a webhook is {prefix} and base64") from None
    if not key:
        raise ConfigError("the secret of a webhook is empty: anybody could sign with it")
    if prefix == PUBLIC_KEY and len(key) != 32:
        raise ConfigError(f"the public key of a webhook is {prefix} and the base64 of 32 bytes")
    return key
