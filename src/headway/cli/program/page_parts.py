"""The parts of a page about one thing: a title, named values, blocks of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headway.cli.program.output import Cell, clean, console


def title(name: str, state: Cell, ident: str | None = None) -> None:
    """Its name, its status, and its id."""
    from rich.text import Text

    last = () if ident is None else ("  ", (ident, "dim"))
    console().print(Text.assemble((clean(name), "bold"), "  ", state, *last))


def values(pairs: Iterable[tuple[str, str | None]]) -> None:
    """One line for each value that is set."""
    from rich.text import Text

    out = console()
    for name, value in pairs:
        if value:
            out.print(Text.assemble((f"  {name:<15}", "dim"), clean(value)))


def heading(text: str) -> None:
    console().print(f"\n{text}", style="bold")


def block(name: str, text: str, style: str | None = None) -> None:
    """Text under a heading."""
    heading(name)
    console().print("\n".join(f"  {line}" for line in clean(text).splitlines()), style=style)


def blocks(found: Mapping[str, Any]) -> None:
    """A block of JSON for each of these that is not empty."""
    for name, value in found.items():
        if value not in (None, {}, [], ""):
            block(name, pretty(value))


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def brief(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
