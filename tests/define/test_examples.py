"""The examples in the docstrings of definitions and of the model run as they are written."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "headway.define.kind",
        "headway.define.registry",
        "headway.model.codec",
        "headway.model.duration",
        "headway.model.outcome",
        "headway.model.rate",
    ],
)
def test_the_examples_of_a_module_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
