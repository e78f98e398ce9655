"""An application's own table beside Headway's, and its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from headway import Context
from tests.store.db import connect


class Ledger:
    """A table in the same database: a note for each job that wrote one."""

    def __init__(self, store: Any) -> None:
        self.store = store
        with closing(connect(store)) as conn:
            conn.execute("create table ledger (job text, note text)")

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Commits, or rolls back if the block raises."""
        with closing(connect(self.store)) as conn:
            conn.execute("begin immediate" if self.store.dialect == "sqlite" else "begin")
            try:
                yield conn
            except BaseException:
                conn.execute("rollback")
                raise
            conn.execute("commit")

    def write(self, conn: Any, ctx: Context, note: str = "done") -> None:
        conn.execute(
            f"insert into ledger values ({', '.join(['%s' if self.store.dialect == 'postgres' else '?'] * 2)})",
            (ctx.job_id, note),
        )

    def notes(self) -> list[str]:
        with closing(connect(self.store)) as conn:
            return sorted(note for (note,) in conn.execute("select note from ledger"))

    def settle(self, ctx: Context, outcome: Any = None, note: str = "done") -> None:
        """A whole transaction: a row, and the outcome."""
        with self.transaction() as conn:
            self.write(conn, ctx, note)
            ctx.settle(outcome, conn=conn)
