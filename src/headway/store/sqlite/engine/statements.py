"""Loads the statements of the .sql files, by their `-- name:` headers.

What several statements of a file share, such as a list of columns, is a `-- part:`; they name it in braces.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the SQLite store; each file of statements lies beside the module that runs them."""

_HEADER = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
_VALUES = re.compile(r"(?<= values )(\(.*?\))")


@cache
def statements(file: str) -> dict[str, str]:
    """The named statements of a file such as `jobs/claim`, without their comments, each on one line."""
    parts = _HEADER.split((ROOT / f"{file}.sql").read_text("utf-8"))
    texts = {(what, name): _bare(body) for what, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)}
    shared = {name: text for (what, name), text in texts.items() if what == "part"}
    return {
        name: _PART.sub(lambda found: shared[found[1]], text) for (what, name), text in texts.items() if what == "name"
    }


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
