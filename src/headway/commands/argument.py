"""Argument: one item of argv, a literal or a text with one placeholder; it always becomes exactly one argument."""

from __future__ import annotations

import re

import msgspec

from headway.errors import InvalidPayload

BUILT_IN = ("tenant", "tenant_id", "job_id", "kind", "attempt")
"""The placeholders that every command has."""

_PART = re.compile(r"\{\{|\}\}|\{([A-Za-z][A-Za-z0-9_]*)\}|[{}]")


class Argument(msgspec.Struct, frozen=True):
    """The text before the placeholder, its field, and the text after it; without a placeholder, the literal."""

    before: str
    field: str | None = None
    after: str = ""

    def filled(self, text: str, *, allow_dash: bool) -> str:
        """The argument with the field's text; raises `InvalidPayload` for a value that looks like an option."""
        if not self.before and text.startswith("-") and not allow_dash:
            raise InvalidPayload(
                f"{self.field}: its value starts with '-', which the program would take as an option: "
                f"such values need allow_dash = true on the param"
            )
        return f"{self.before}{text}{self.after}"


def read_argument(item: str) -> Argument:
    """Reads "--since={since}"; `{{` and `}}` are literal braces. Raises `ValueError` with the reason."""
    literals = [""]
    fields: list[str] = []
    end = 0
    for found in _PART.finditer(item):
        literals[-1] += item[end : found.start()]
        end = found.end()
        if found[1] is not None:
            fields.append(found[1])
            literals.append("")
        elif len(found[0]) == 2:
            literals[-1] += found[0][0]
        else:
            raise ValueError(f"has a lone {found[0]!r} in {item!r}: write {{{{ or }}}} for a brace")
    literals[-1] += item[end:]
    match fields:
        case []:
            return Argument(literals[0])
        case [field]:
            return Argument(literals[0], field, literals[1])
    raise ValueError(f"has {len(fields)} placeholders in {item!r}: one argument takes one")
