"""How handlers are read: by names and annotations, some of which only type checkers can evaluate."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from headway_client import ConfigError
from headway_client.handlers import handler

MODULE = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import decimal
    import headway_client
    from headway_client import Context


def by_name(ctx: headway_client.Nothing, number: int) -> decimal.Decimal: ...
def by_type(job: Context, number: int) -> decimal.Decimal: ...
def by_path(job: "headway_client.Context", number: int): ...
async def anything(number, **more: int) -> decimal.Decimal: ...

def unknown(number: decimal.Decimal): ...
def nested(numbers: list[decimal.Decimal]): ...

@dataclass
class Order:
    total: decimal.Decimal

class Sizes(TypedDict):
    width: decimal.Decimal

def model(order: Order): ...
def keys(payload: Sizes): ...
def inside(orders: list[Order]): ...
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path: Path = tmp_path_factory.mktemp("handlers") / "annotated.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("annotated", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["annotated"] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("name", "context"), [("by_name", "ctx"), ("by_type", "job"), ("by_path", "job"), ("anything", None)]
)
def test_what_only_type_checkers_import_is_not_in_the_way(module: ModuleType, name: str, context: str | None) -> None:
    made = handler("work", None, getattr(module, name))
    assert (made.context, set(made.names), made.model) == (context, {"number"}, None)


@pytest.mark.parametrize("name", ["unknown", "nested", "model", "keys", "inside"])
def test_a_parameter_whose_type_nobody_can_find_is_refused(module: ModuleType, name: str) -> None:
    with pytest.raises(ConfigError, match=r"handler of work: .*decimal.* at module level, not under TYPE_CHECKING"):
        handler("work", None, getattr(module, name))
