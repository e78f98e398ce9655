"""Rewrites `$1` and `?1` into the placeholders that another library reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_PLACEHOLDER = re.compile(r"[$?](\d+)")


def render(sql: str, params: Sequence[Any], paramstyle: str) -> tuple[str, tuple[Any, ...] | dict[str, Any]]:
    """The statement and its parameters in a paramstyle of PEP 249, or SQLAlchemy's `numeric_dollar`."""
    match paramstyle:
        case "format":
            return _PLACEHOLDER.sub("%s", sql.replace("%", "%%")), _in_order(sql, params)
        case "qmark":
            return _PLACEHOLDER.sub("?", sql), _in_order(sql, params)
        case "pyformat":
            return _PLACEHOLDER.sub(r"%(p\1)s", sql.replace("%", "%%")), _by_name(params)
        case "named":
            return _PLACEHOLDER.sub(r":p\1", sql), _by_name(params)
        case "numeric":
            return _PLACEHOLDER.sub(r":\1", sql), tuple(params)
        case "numeric_dollar":
            return _PLACEHOLDER.sub(r"$\1", sql), tuple(params)
        case _:
            raise ValueError(f"unknown paramstyle {paramstyle!r}")


def _in_order(sql: str, params: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(params[int(number) - 1] for number in _PLACEHOLDER.findall(sql))


def _by_name(params: Sequence[Any]) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(params, start=1)}
