"""Loads the statements of the .sql files, by their `-- name:` headers.

What several statements share, such as a list of columns, is a `-- part:`. They name it in braces: `{columns}`, or from
another file `{jobs/ending.running}`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the SQLite store; each file of statements lies beside the module that runs them."""

_HEADER = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(?:([\w/]+)\.)?(\w+)\}")
_VALUES = re.compile(r"(?<= values )(\(.*?\))")


@cache
def statements(file: str) -> dict[str, str]:
    """The named statements of a file such as `jobs/claim`, without their comments, each on one line."""
    return {name: _whole(text, file) for (what, name), text in _texts(file).items() if what == "name"}


def of_rows(insert: str, rows: int) -> str:
    """The insert of one row as an insert of this many: it opens the table and its indexes only once."""
    head, values, tail = _VALUES.split(insert)
    width = values.count("?")
    numbers = (range(first, first + width) for first in range(1, 1 + rows * width, width))
    return head + ", ".join(f"({', '.join(f'?{number}' for number in row)})" for row in numbers) + tail


@cache
def _texts(file: str) -> dict[tuple[str, str], str]:
    pieces = _HEADER.split((ROOT / f"{file}.sql").read_text("utf-8"))
    return {
        (what, name): _bare(body) for what, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)
    }


def _whole(text: str, file: str) -> str:
    """The text with its parts filled in."""
    return _PART.sub(lambda found: _whole(_texts(found[1] or file)["part", found[2]], found[1] or file), text)


def _bare(body: str) -> str:
    # short: each run looks the text up in the cache of prepared statements
    lines = (line.strip() for line in body.splitlines() if not line.lstrip().startswith("--"))
    return " ".join(lines).strip().removesuffix(";")
