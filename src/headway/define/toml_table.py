"""Table: a section of headway.toml, read key by key; its errors name the file, the section and the key."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headway.errors import ConfigError, InvalidJob
from headway.model.duration import to_ms

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\Z", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Table:
    """The values of a section, with the file and the section for errors."""

    def __init__(self, values: object, where: str, section: str) -> None:
        self.where = where
        self.section = section
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: [{section}] is not a table")
        self._values: Mapping[str, Any] = values

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Any:
        return iter(self._values)

    def fault(self, key: str | None, reason: str) -> ConfigError:
        """An error that names the file, the section and the key."""
        return ConfigError(f"{self.where}: [{self.section}]{'' if key is None else f' {key}'} {reason}")

    def only(self, known: Sequence[str]) -> None:
        """Refuse every other key, suggesting a similar one."""
        for key in self._values:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(known)}"
                raise self.fault(None, f"has an unknown key {key!r}: {hint}")

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def table(self, key: str) -> Table:
        return Table(self._values.get(key, {}), self.where, f"{self.section}.{key}")

    def text(self, key: str, default: str) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str) or "\0" in value:
            raise self.fault(key, f"is {value!r}, not a text")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key, "") if key in self._values else None

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and "\0" not in each for each in value):
            raise self.fault(key, f"is {value!r}, not a list of texts")
        return tuple(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.fault(key, f"is {value!r}, not true or false")
        return value

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(key, f"is {value!r}, not a whole number from {least} to {most}")
        return value

    def optional_integer(self, key: str, least: int, most: int) -> int | None:
        return self.integer(key, least, least, most) if key in self._values else None

    def number(self, key: str) -> float | None:
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self.fault(key, f"is {value!r}, not a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fault(key, f"is {value!r}: give a number, or leave it out")
        return value

    def codes(self, key: str) -> frozenset[int] | None:
        """Exit codes; -9 means ended by signal 9."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(each) is int and -64 <= each <= 255 for each in value):
            raise self.fault(key, f"is {value!r}, not a list of exit codes from 0 to 255 (or -N for signal N)")
        return frozenset(value)

    def one_of(self, key: str, choices: Collection[str], default: str) -> str:
        value = self._values.get(key, default)
        if value not in choices:
            raise self.fault(key, f"is {value!r}: it is one of {', '.join(choices)}")
        return str(value)

    def duration(self, key: str, default: str) -> int:
        """Whole milliseconds."""
        try:
            return to_ms(self._values.get(key, default), key)
        except InvalidJob as error:
            raise ConfigError(f"{self.where}: [{self.section}] {error}") from error

    def size(self, key: str, default: str | None = None, *, least: int = 0) -> int | None:
        """Bytes: a number, or a text like "64KB" (of 1024 bytes), "512MB"."""
        value = self._values.get(key, default)
        if value is None:
            return None
        found = _SIZE.match(value) if isinstance(value, str) else None
        if found is not None:
            size = int(float(found[1]) * _FACTORS[found[2].upper()])
        elif isinstance(value, int) and not isinstance(value, bool):
            size = value
        else:
            raise self.fault(key, f"is {value!r}, not a size: give bytes, or a text like '64KB' or '512MB'")
        if not least <= size < 1 << 50:
            raise self.fault(key, f"is {value!r}: give at least {least:,} bytes")
        return size

    def folder(self, key: str) -> str | None:
        value = self.optional_text(key)
        if value is not None and not os.path.isabs(value):
            raise self.fault(key, f"is {value!r}, not an absolute path")
        return value
