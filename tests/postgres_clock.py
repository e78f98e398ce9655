"""The time of a PostgreSQL database in tests: `headway.now()` reads it from a table.

To replace the function at each step of a held clock would be simpler, but then every session plans every statement that
calls it anew: some 3 ms for each verb, 30 s of the whole run.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

RELEASE = "update headway_test.clock set held_at = null where held_at is not null"

_HOLDABLE = """
create schema headway_test;
create table headway_test.clock (held_at timestamptz);
insert into headway_test.clock values (null);
grant usage on schema headway_test to public;
grant select on headway_test.clock to public;
create or replace function headway.now() returns timestamptz language plpgsql volatile as $$
begin
  return coalesce((select held_at from headway_test.clock), pg_catalog.clock_timestamp());
end $$;
"""


def make_holdable(conn: psycopg.Connection[Any]) -> None:
    """Let `headway.now()` be the time in `headway_test.clock`, or the server's while there is none."""
    if conn.execute("select to_regclass('headway_test.clock')").fetchone() == (None,):
        conn.execute(_HOLDABLE)


def hold(conn: psycopg.Connection[Any], now: datetime) -> None:
    conn.execute("update headway_test.clock set held_at = %s", [now])
