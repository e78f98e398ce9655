"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["masking", "names", "redaction", "stream"])
def test_the_examples_of_docstrings_are_true(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"headway.secrets.{name}"))
    assert results.attempted
    assert not results.failed
