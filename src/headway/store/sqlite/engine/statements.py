"""Loads the statements of the .sql files, by their `-- name:` headers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the SQLite store; each file of statements lies beside the module that runs them."""

_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_VALUES = re.compile(r"(?<= values )(\(.*?\))")


@cache
def statements(file: str) -> dict[str, str]:
    """The named statements of a file such as `jobs/claim`, without their comments, each on one line."""
    parts = _HEADER.split((ROOT / f"{file}.sql").read_text("utf-8"))
    return {name: _bare(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def of_rows(insert: str, rows: int) -> str:
    """The insert of one row as one of so many, which opens the table and all its indexes only once."""
    head, values, tail = _VALUES.split(insert)
    width = values.count("?")
    numbers = (range(first, first + width) for first in range(1, 1 + rows * width, width))
    return head + ", ".join(f"({', '.join(f'?{number}' for number in row)})" for row in numbers) + tail


def _bare(body: str) -> str:
    # the shorter the better: each run looks its text up among those that are prepared
    lines = (line.strip() for line in body.splitlines() if not line.lstrip().startswith("--"))
    return " ".join(lines).strip().removesuffix(";")
