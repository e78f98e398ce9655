"""The rows as they are stored, read by plain SQL beside the store that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import apsw
import psycopg

from headway.model.job import NewJob

Row = dict[str, Any]


class Rows:
    """Reads jobs and attempts of one database; ids are text and times epoch seconds on both stores."""

    def __init__(self, url: str) -> None:
        self._url = url

    def jobs(self, ids: Sequence[str] | None = None, **where: str) -> dict[str, Row]:
        """By id: these, or all; `kind="work"` and the like keep some."""
        tests = [f"{name} = {self._mark}" for name in where]
        values: list[Any] = list(where.values())
        if ids is not None:
            tests.append("id in (select value from json_each(?))" if self._is_sqlite else "id = any (%s::uuid[])")
            values.append(json.dumps(list(ids)) if self._is_sqlite else list(ids))
        rows = self._read("select * from {}" + (" where " + " and ".join(tests) if tests else ""), values=values)
        return {row["id"]: row for row in rows}

    def statuses_of(self, jobs: Sequence[NewJob]) -> set[str]:
        return {row["status"] for row in self.jobs([job.id for job in jobs]).values()}

    def attempts(self) -> dict[tuple[str, int], Row]:
        """By job and fence; two rows of one attempt fail the test."""
        rows = self._read("select * from {}", "attempts")
        found = {(row["job_id"], row["fence"]): row for row in rows}
        assert len(found) == len(rows), "an attempt ended in more than one row"
        return found

    def statuses(self) -> dict[str, int]:
        return {
            row["status"]: row["count"] for row in self._read("select status, count(*) as count from {} group by 1")
        }

    def events(self) -> dict[str, int]:
        """How many events are in each status."""
        rows = self._read("select status, count(*) as count from {} group by 1", "events")
        return {row["status"]: row["count"] for row in rows}

    def of(self, ids: list[str]) -> list[Row]:
        """All there is of these jobs: their rows and their attempts."""
        jobs, attempts = self.jobs(ids), self.attempts()
        return [jobs[job_id] for job_id in ids] + [attempts[key] for key in sorted(attempts) if key[0] in ids]

    def sizes(self) -> dict[str, int]:
        """How many jobs each correlation id has."""
        rows = self._read("select correlation_id, count(*) as count from {} group by 1")
        return {row["correlation_id"]: row["count"] for row in rows}

    def reservations(self) -> list[Row]:
        return self._read("select * from {}", "reservations")

    def left(self) -> dict[str, int]:
        """How many rows each of the tables has that are empty when nothing waits."""
        tables = ("holds",) if self._is_sqlite else ("holds", "arrivals")
        return {table: self._read("select count(*) as count from {}", table)[0]["count"] for table in tables}

    def can_be_written(self) -> bool:
        """Whether nobody holds the write lock of a SQLite file right now."""
        if self._is_sqlite:
            with self._file() as conn:
                try:
                    conn.execute("begin immediate; rollback")
                except apsw.BusyError:
                    return False
        return True

    def check(self) -> None:
        """Fail if a SQLite file is damaged."""
        if self._is_sqlite:
            assert self._read("pragma integrity_check") == [{"integrity_check": "ok"}]

    @property
    def _is_sqlite(self) -> bool:
        return self._url.startswith("sqlite")

    @property
    def _mark(self) -> str:
        return "?" if self._is_sqlite else "%s"

    def _read(self, sql: str, table: str = "jobs", values: Sequence[Any] = ()) -> list[Row]:
        if self._is_sqlite:
            with self._file() as conn:
                try:
                    cursor = conn.execute(sql.format(table), tuple(values))
                    names = [each[0] for each in cursor.description]
                except apsw.ExecutionCompleteError:  # there are none
                    return []
                rows = cursor.fetchall()
        else:
            with psycopg.connect(self._url) as session:
                found = session.execute(sql.format(f"headway.{table}"), values)
                rows = found.fetchall()
                names = [each.name for each in found.description or ()]
        return [{name: _plain(name, value) for name, value in zip(names, row, strict=True)} for row in rows]

    @contextmanager
    def _file(self) -> Iterator[apsw.Connection]:
        conn = apsw.Connection(self._url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READWRITE)
        conn.set_busy_timeout(10_000)
        try:
            yield conn
        finally:
            conn.close()


def _plain(name: str, value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.timestamp()
        case int() if name.endswith(("_at", "_for")):
            return value / 1_000_000
    return value
