"""Marks for tests that run on other stores than the usual two."""

from __future__ import annotations

import pytest

ALL_LIBRARIES = pytest.mark.parametrize("store", ["sqlite", "sqlite-stdlib", "postgres"], indirect=True)
POSTGRES = pytest.mark.parametrize("store", ["postgres"], indirect=True)
