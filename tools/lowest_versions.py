"""Fails if a dependency is not installed in the lowest version that pyproject.toml admits, which is not tested then."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FLOOR = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=([0-9.]+)")


def floors(project: Path) -> dict[str, str]:
    """Each dependency, those of extras too, and its lowest version."""
    described = tomllib.loads(project.read_text("utf-8"))["project"]
    lists = [described["dependencies"], *described["optional-dependencies"].values()]
    return {floor[1]: floor[2] for names in lists for wanted in names if (floor := _FLOOR.match(wanted))}


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in re.findall(r"\d+", text.partition("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def main() -> int:
    wrong = []
    for project in ("pyproject.toml", "clients/python/pyproject.toml"):
        for name, floor in floors(ROOT / project).items():
            if _numbers(version(name)) != _numbers(floor):
                wrong.append(
                    f"{project} admits {name} {floor}, and the lowest that can be installed is {version(name)}"
                )
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
