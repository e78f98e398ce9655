"""Param: one field of a command's payload, its type, and how its value is written as an argument."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from headway.define.schema import Schema
from headway.define.toml_table import Table
from headway.errors import InvalidJob, InvalidPayload

Type = Literal["string", "int", "float", "bool", "uuid", "date", "enum", "path", "json"]

LONGEST = 4_096
"""How many characters a text may have by default."""
LONGEST_ARGUMENT = 100_000
"""A little less than what the kernel takes as one argument."""

_TYPES: tuple[str, ...] = get_args(Type)
_TEXTS = ("string", "path")
_NUMBERS = {"int": "integer", "float": "number"}
_KEYS = (
    *("type", "description", "required", "default", "choices", "pattern", "min_length", "max_length", "min", "max"),
    *("allow_dash", "secret", "under", "descriptor"),
)
_REFERENCE = {
    "type": "object",
    "properties": {"$secret": {"type": "string", "minLength": 1}},
    "required": ["$secret"],
    "additionalProperties": False,
    "writeOnly": True,
}


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """A declared field; one that is only used in argv is a required string."""

    name: str
    type: Type = "string"
    description: str = ""
    required: bool = True
    default: Any = None
    choices: tuple[str | int, ...] = ()
    pattern: str | None = None
    min_length: int = 0
    max_length: int = LONGEST
    min: float | None = None
    max: float | None = None
    allow_dash: bool = False
    secret: bool = False
    under: str | None = None  # of a path: the folder that must contain it
    descriptor: bool = False  # the program gets what was opened there, so that no link can lead it elsewhere meanwhile
    declared: bool = True

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the field: of its value or, for a secret, of the reference."""
        schema = dict(_REFERENCE) if self.secret else self._plain()
        if self.description:
            schema["description"] = self.description
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def text(self, value: Any) -> str:
        """The value as (part of) an argument; raises `InvalidPayload`, without the value of a secret."""
        if self.secret:
            value = self._checked_secret(value)
        match value:
            case True:
                text = "true"
            case False:
                text = "false"
            case float() if self.type == "int":
                text = str(int(value))
            case str():
                text = value
            case int() | float():
                text = str(value)
            case _:
                raise InvalidPayload(f"{self.name}: this value cannot be an argument: pass it on stdin")
        if "\0" in text:
            raise InvalidPayload(f"{self.name}: it holds a NUL character, which an argument cannot hold")
        if self.type == "path" and (not text.startswith("/") or ".." in text.split("/")):
            raise InvalidPayload(f"{self.name}: {self._shown(text)} is not an absolute path without '..'")
        if self.under is not None and not _within(os.path.normpath(text), os.path.normpath(self.under)):
            raise InvalidPayload(f"{self.name}: {self._shown(text)} is not in {self.under}")
        return text

    def check_on_host(self, text: str) -> None:
        """Raises `InvalidPayload` if a symlink leads the path out of its folder."""
        if self.under is not None and not _within(os.path.realpath(text), os.path.realpath(self.under)):
            raise InvalidPayload(f"{self.name}: {self._shown(text)} leads out of {self.under}")

    def _plain(self) -> dict[str, Any]:
        match self.type:
            case "json":
                return {}
            case "bool":
                return {"type": "boolean"}
            case "enum":
                return {"enum": list(self.choices)}
            case "uuid" | "date":
                return {"type": "string", "format": self.type}
            case "int" | "float":
                limits = {"minimum": self.min, "maximum": self.max}
                return {"type": _NUMBERS[self.type]} | {name: to for name, to in limits.items() if to is not None}
            case _:
                schema: dict[str, Any] = {"type": "string", "maxLength": self.max_length}
                if self.min_length:
                    schema["minLength"] = self.min_length
                if self.pattern is not None:
                    schema["pattern"] = whole(self.pattern)
                elif self.type == "path":
                    schema["pattern"] = "^/"
                return schema

    def _checked_secret(self, value: Any) -> Any:
        try:
            Schema(self._plain()).check(msgspec.json.encode(value).decode(), self.name)
        except InvalidPayload:
            # without the fault itself, which would show the value
            raise InvalidPayload(f"{self.name}: the secret's value does not fit what the param declares") from None
        return value

    def _shown(self, text: str) -> str:
        return "its path" if self.secret else repr(text)


def read_param(name: str, table: Table) -> Param:
    """A `params.NAME` table, checked; raises `ConfigError`."""
    table.only(_KEYS)
    choices = table.get("choices")
    kind = table.one_of("type", _TYPES, "string" if choices is None else "enum")
    if (kind == "enum") != (choices is not None):
        raise table.fault("choices", 'belongs to type = "enum", and an enum has choices')
    if choices is not None and not (
        isinstance(choices, list)
        and choices
        and all(isinstance(each, str | int) and not isinstance(each, bool) for each in choices)
    ):
        raise table.fault("choices", "is a list of texts or whole numbers")
    for key in ("pattern", "min_length", "max_length"):
        if key in table and kind not in _TEXTS:
            raise table.fault(key, f'is for type = "string" or "path", and this is "{kind}"')
    for key in ("min", "max"):
        if key in table and kind not in _NUMBERS:
            raise table.fault(key, f'is for type = "int" or "float", and this is "{kind}"')
    if table.get("secret") and kind != "string":
        raise table.fault("secret", f'is for type = "string", and this is "{kind}": variables are texts')
    if "under" in table and kind != "path":
        raise table.fault("under", f'is for type = "path", and this is "{kind}"')
    if table.get("descriptor") and "under" not in table:
        raise table.fault("descriptor", "needs under: what is opened has to be in a folder")
    param = Param(
        name=name,
        type=kind,  # type: ignore[arg-type]
        description=table.text("description", ""),
        required=table.flag("required", "default" not in table),
        default=table.get("default"),
        choices=tuple(choices or ()),
        pattern=table.optional_text("pattern"),
        min_length=table.integer("min_length", 0, 0, LONGEST_ARGUMENT),
        max_length=table.integer("max_length", LONGEST, 1, LONGEST_ARGUMENT),
        min=table.number("min"),
        max=table.number("max"),
        allow_dash=table.flag("allow_dash", False),
        secret=table.flag("secret", False),
        under=table.folder("under"),
        descriptor=table.flag("descriptor", False),
    )
    _check(param, table)
    return param


def _check(param: Param, table: Table) -> None:
    try:
        schema = Schema(param._plain())
    except InvalidJob as error:
        raise table.fault("pattern", str(error)) from error
    if param.default is None:
        return
    if param.secret:
        raise table.fault("default", "is not for a secret: it would stand in this file")
    try:
        schema.check(msgspec.json.encode(param.default).decode(), "default")
    except (InvalidPayload, TypeError) as error:
        raise table.fault("default", f"does not fit its own param: {error}") from error


def whole(pattern: str) -> str:
    """A pattern that must match the whole text."""
    return f"^(?:{pattern})$"


def schema_of(params: Mapping[str, Param]) -> dict[str, Any]:
    """The JSON Schema of a payload with these fields and no others."""
    return {
        "type": "object",
        "properties": {name: param.schema() for name, param in params.items()},
        "required": [name for name, param in params.items() if param.required],
        "additionalProperties": False,
    }


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
