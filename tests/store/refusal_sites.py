"""Where the stores refuse: every `raise` in their source, and the one that an error came from."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

import headway

SOURCE = Path(headway.__file__).parent
_FUNCTION = re.compile(r"^create (?:or replace )?function headway\.(\w+)", re.MULTILINE)
_BODY = re.compile(r"\bas \$\$")
_RAISE = re.compile(r"^ *raise exception\b", re.MULTILINE)
_CODE = re.compile(r"errcode = '(\w+)'")
_LINE = re.compile(r"function (?:headway\.)?(\w+)\(.*\) line (\d+) at RAISE")


@dataclass(frozen=True)
class Site:
    """One `raise`: its file, the function that it is in, its lines, and how it begins."""

    path: Path
    function: str
    first: int
    last: int
    words: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE)}:{self.first} {self.function}: {self.words}"

    def among(self, excepted: Iterable[str]) -> bool:
        """Whether it is in one of these files or folders, or is one of these (a function, and how the raise begins)."""
        names = (str(self.path.relative_to(SOURCE)), f"{self.function}: {self.words}")
        return any(name.startswith(each) for name in names for each in excepted)


def python_sites(*folders: Path) -> list[Site]:
    """Every `raise` that makes an error; one that passes another's on is none."""
    found: list[Site] = []
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text())
            found += [
                Site(path, name, node.lineno, node.end_lineno or 0, ast.unparse(node.exc) if node.exc else "")
                for name, node in _raises(tree, "module")
            ]
    return found


def _raises(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Raise]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
            yield inside, child
        yield from _raises(child, inside)


def postgres_sites(folder: Path) -> list[Site]:
    """Every `raise exception` of the SQL functions that has one of our codes."""
    found: list[Site] = []
    for path in sorted(folder.rglob("*.sql")):
        text = path.read_text()
        starts = [*_FUNCTION.finditer(text)]
        for place, start in enumerate(starts, 1):
            end = starts[place].start() if place < len(starts) else len(text)
            body = _BODY.search(text, start.start(), end)
            assert body is not None
            for each in _RAISE.finditer(text, body.end(), end):
                statement = text[each.start() : text.index(";\n", each.start()) + 1]
                code = _CODE.search(statement)
                if code is not None and code[1].startswith("HW"):
                    # plpgsql counts from the line that opens the body
                    line = text.count("\n", body.end(), each.start()) + 1
                    found.append(Site(path, start[1], line, line, statement.strip().removeprefix("raise exception ")))
    return found


def python_site(error: BaseException, sites: list[Site]) -> Site | None:
    """The site that this error was raised at: the innermost of its traceback that is one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for site in sites:
            if frame.filename == str(site.path) and site.first <= (frame.lineno or 0) <= site.last:
                return site
    return None


def postgres_site(error: BaseException, sites: list[Site]) -> Site | None:
    """The same for an error of a SQL function, whose context names it and the line in it."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or not cause.diag.context:
        return None
    found = _LINE.search(cause.diag.context.splitlines()[0])
    if found is None:
        return None
    name, line = found[1], int(found[2])
    return next((site for site in sites if site.function == name and site.first == line), None)
