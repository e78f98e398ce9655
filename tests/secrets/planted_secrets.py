"""Secrets that are planted in the environment, to be looked for afterwards."""

from __future__ import annotations

BY_NAME = "Kx7Qz9mw2rT5-by-name"
BY_REFERENCE = 'Vb3\\n"Lp8/+é jH6-by-reference'
IN_URL = "Zc4Xn1Ws9-in-url"
PIN = "90817263"
PLANTED = (BY_NAME, BY_REFERENCE, IN_URL, PIN)
