"""Reads the documentation: its pages, their fenced blocks, and their links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), ROOT / "deploy/README.md", *(ROOT / "docs").rglob("*.md")],
    key=lambda page: page.relative_to(ROOT).as_posix(),
)

_FENCE = re.compile(r"^```(\S*)[ \t]*(.*)$")
_HIDDEN = re.compile(r"^<!-- run (\S+)[ \t]*(.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, or a hidden one (`<!-- run python … -->`) that prepares what the next ones need."""

    language: str
    words: tuple[str, ...]  # what stands behind the language: postgres, norun, rollback, file=name
    text: str
    line: int  # of its first line
    hidden: bool = False

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), None)

    @property
    def on_postgres(self) -> bool:
        return "postgres" in self.words or self.language == "sql"

    @property
    def runs(self) -> bool:
        return self.language in ("python", "console", "sql") and "norun" not in self.words


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(page.read_text("utf-8").splitlines(), 1))
    for number, line in lines:
        fence, hidden = _FENCE.match(line), _HIDDEN.match(line)
        if fence:
            text = "\n".join(_until(lines, "```"))
            found.append(Block(fence[1], tuple(fence[2].split()), text, number + 1))
        elif hidden:
            text = "\n".join(_until(lines, "-->"))
            found.append(Block(hidden[1], tuple(hidden[2].split()), text, number + 1, hidden=True))
    return found


def prose_of(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"^```.*?^```$|^<!-- run .*?^-->$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def section(page: Path, heading: str) -> str:
    """What stands under a heading, up to the next one of the same or a higher level."""
    text = page.read_text("utf-8")
    match = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert match, f"{name_of(page)} has no heading {heading!r}"
    rest = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without their heads; a cell that is one `code` loses its quotes."""
    rows: list[list[str]] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if not line.startswith("|") or re.match(r"^\|[-| :]+\|$", line):
            continue
        if index + 1 < len(lines) and re.match(r"^\|[-| :]+\|$", lines[index + 1]):
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        rows.append([re.sub(r"^`([^`]*)`$", r"\1", cell) for cell in cells])
    return rows


def _until(lines: Iterator[tuple[int, str]], end: str) -> Iterator[str]:
    for _, line in lines:
        if line == end:
            return
        yield line
    raise ValueError(f"a block has no end ({end})")
