"""What the verbs have in common: an op that is one call of a function, or one select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headway.store.ops import Op, Rows, Statement, Steps

T = TypeVar("T")


def call(
    sql: str, params: Sequence[Any], shape: Callable[[Rows], T], *, repeatable: bool = True, urgent: bool = False
) -> Op[T]:
    """One call of a function that writes."""

    def steps() -> Steps[T]:
        return shape((yield Statement(sql, params)))

    return Op(steps, writes=True, repeatable=repeatable, urgent=urgent)


def read(sql: str, params: Sequence[Any], shape: Any, *, urgent: bool = False) -> Op[Any]:
    def steps() -> Steps[Any]:
        return shape((yield Statement(sql, params)))

    return Op(steps, writes=False, urgent=urgent)


def first(rows: Rows) -> Any:
    return rows[0][0]


def nothing(_: Rows) -> None:
    return None


def id_list(rows: Rows) -> list[str]:
    return [str(row[0]) for row in rows]
