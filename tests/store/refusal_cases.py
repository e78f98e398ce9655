"""The cases of `test_refusals.py`: the functions of some modules, which get a store; and the ids that they use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.tenant_ids import tenant_id

Case = Callable[[Any], Any]

# the same on both stores, so that texts can be compared as they are
A, B, C, D, E = (f"01900000-0000-7000-8000-00000000000{letter}" for letter in "abcde")
GROUP = "01900000-0000-7000-8000-000000000060"
ACME = tenant_id("acme")
OTHER = tenant_id("other")


def cases(*modules: ModuleType) -> list[Case]:
    """Every public function of these modules, in order."""
    return [
        case
        for module in modules
        for name, case in vars(module).items()
        if inspect.isfunction(case) and case.__module__ == module.__name__ and not name.startswith("_")
    ]


def rename(db: Any, tenant: str, to: str) -> None:
    """Give a tenant another name, as an operator does by SQL."""
    db.sql(f"update {db.table('tenants')} set slug = ? where slug = ?", to, tenant)
