"""The doctor's checks of a PostgreSQL server: version, latency, clock, row-level security, roles, vacuum."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from headway.app.doctor.finding import Finding, note, ok, problem
from headway.model.duration import show_ms
from headway.store.ops import Op, Statement, Steps
from headway.store.run import Store

OLDEST, NEWEST = 15, 18
_SLOW_MS = 50.0
_SKEW_S = 5.0
_LONG_S = 600
_MANY_XIDS = 1_000_000
_RLS = """
select c.relname, c.relrowsecurity,
       (select count(*) from pg_policy p where p.polrelid = c.oid and p.polname = 'tenant_isolation')
  from pg_class c
 where c.relnamespace = to_regnamespace('headway')
   and c.relkind = 'r'
   and c.relname in ('attempts', 'audit', 'connector_configs', 'edges', 'events', 'fires', 'groups', 'holds', 'jobs',
                     'signals', 'templates', 'tenants', 'triggers')
 order by 1
"""
_ROLES = r"""
select r.rolname::text,
       pg_has_role(
         session_user, r.oid,
         case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end),
       session_user::text
  from pg_namespace n
 cross join aclexplode(n.nspacl) a
  join pg_roles r on r.oid = a.grantee
 where n.nspname = 'headway' and r.rolname ~ '^headway_(worker|app)_'
 order by 1 desc
"""
# what keeps old row versions from being vacuumed: they pile up and slow every claim
_HORIZON = """
select format('transaction of %s, pid %s (%s)', usename, pid, coalesce(nullif(application_name, ''), state)),
       extract(epoch from clock_timestamp() - xact_start)::float8,
       age(backend_xmin)::bigint,
       format('select pg_terminate_backend(%s);', pid)
  from pg_stat_activity
 where backend_xmin is not null
   and xact_start is not null
   and pid <> pg_backend_pid()
union all
select format('replication slot %s (%s)', slot_name, case when active then 'active' else 'inactive' end),
       null,
       greatest(age(xmin), age(catalog_xmin))::bigint,
       format('select pg_drop_replication_slot(%L);', slot_name)
  from pg_replication_slots
 where xmin is not null or catalog_xmin is not null
union all
select format('prepared transaction %s of %s', gid, owner),
       extract(epoch from clock_timestamp() - prepared)::float8,
       age(transaction)::bigint,
       format('rollback prepared %L;', gid)
  from pg_prepared_xacts
 order by 3 desc nulls last
"""
_BLOAT = """
select relname::text, n_live_tup, n_dead_tup, coalesce(last_autovacuum, last_vacuum)
  from pg_stat_user_tables
 where schemaname = 'headway'
 order by n_dead_tup desc
"""


def examine(store: Store) -> Iterator[Finding]:
    """The findings about a server; raises `StoreUnavailable` if it does not answer."""
    asked = _ask(store)
    yield _latency(asked["trips"])
    yield _version(asked["version"])
    yield _clock(asked["skew_s"])
    if asked["rls"]:
        yield _row_security(asked["rls"])
        yield _roles(asked["roles"])
        yield _bloat(asked["bloat"])
    yield from _horizon(asked["horizon"])


def _ask(store: Store) -> dict[str, Any]:
    """All queries, on a separate connection that needs no schema."""

    def steps() -> Steps[dict[str, Any]]:
        trips = []
        skew_s = 0.0
        for _ in range(5):
            began, before = time.perf_counter(), time.time()
            rows = yield Statement("select clock_timestamp()")
            trips.append((time.perf_counter() - began) * 1_000)
            skew_s = (rows[0][0] - datetime.fromtimestamp((before + time.time()) / 2, UTC)).total_seconds()
        version = yield Statement("select current_setting('server_version_num')::integer, version()")
        return {
            "trips": trips,
            "skew_s": skew_s,
            "version": version[0],
            "rls": (yield Statement(_RLS)),
            "roles": (yield Statement(_ROLES)),
            "horizon": (yield Statement(_HORIZON)),
            "bloat": (yield Statement(_BLOAT)),
        }

    from headway.store.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return store.run_script(Op(steps, writes=False))


def _latency(trips: list[float]) -> Finding:
    middle = sorted(trips)[len(trips) // 2]
    detail = f"answers in {middle:.1f} ms"
    if middle < _SLOW_MS:
        return ok("reach", detail)
    return problem("reach", f"{detail}: every claim and settle takes as long", "run workers nearer to the database")


def _version(row: tuple[int, str]) -> Finding:
    number, text = row
    major = number // 10_000
    name = " ".join(text.split()[:2])
    if major < OLDEST:
        return problem("server", f"{name} is too old", f"upgrade the server to {OLDEST} or later")
    if major > NEWEST:
        return note("server", f"{name} is newer than {NEWEST}, the newest that this release is tested with")
    return ok("server", name)


def _clock(skew_s: float) -> Finding:
    apart = show_ms(abs(skew_s) * 1_000)
    if abs(skew_s) < _SKEW_S:
        return ok("clock", f"{apart} apart from the server's")
    side = "behind" if skew_s > 0 else "ahead of"
    return problem("clock", f"this machine is {apart} {side} the server", "synchronise both with NTP")


def _row_security(rows: list[tuple[str, bool, int]]) -> Finding:
    open_ = [name for name, enabled, policies in rows if not (enabled and policies)]
    if not open_:
        return ok("tenants", "row-level security is on")
    name = open_[0]
    return problem(
        "tenants",
        f"row-level security is off for {', '.join(open_)}",
        f"alter table headway.{name} enable row level security; (its policy is in headway migrate --sql)",
    )


def _roles(rows: list[tuple[str, bool, str]]) -> Finding:
    if len(rows) < 2:
        return note(
            "roles",
            "not made: everything runs as one trusted role, and the HTTP API has one wall between tenants, its own "
            "(headway migrate --roles makes them)",
        )
    _, (app, may_take_on, login) = rows  # in reverse order of names
    exist = f"{' and '.join(name for name, _, _ in rows)} exist"
    if may_take_on:
        return ok("roles", f"{exist}; the HTTP API of {login} has two walls between tenants")
    return note(
        "roles",
        f"{exist}, but {login} may not take on the latter: its HTTP API has one wall between tenants "
        f'(grant "{app}" to "{login}";)',
    )


def _bloat(rows: list[tuple[str, int, int, datetime | None]]) -> Finding:
    for table, live, dead, vacuumed in rows:
        if dead > 20_000 + live * 0.2:
            since = f"last vacuumed {vacuumed.isoformat(timespec='seconds')}" if vacuumed else "never vacuumed"
            return problem(
                "vacuum",
                f"headway.{table} has {dead:,} dead rows to {live:,} live ones, {since}",
                f"vacuum (analyze) headway.{table}; and see that autovacuum is on and nothing holds it back",
            )
    return ok("vacuum", f"{sum(row[2] for row in rows):,} dead rows wait for it")


def _horizon(rows: list[tuple[str, float | None, int | None, str]]) -> Iterator[Finding]:
    pinned = False
    for what, seconds, xids, fix in rows:
        for_long = seconds is not None and seconds > _LONG_S
        if for_long or (xids or 0) > _MANY_XIDS:
            pinned = True
            since = f" for {show_ms(seconds * 1_000)}" if seconds is not None else ""
            yield problem(
                "horizon", f"{what} keeps dead rows from being removed{since} ({xids or 0:,} transactions)", fix
            )
    if not pinned:
        oldest = max((seconds for _, seconds, _, _ in rows if seconds is not None), default=0.0)
        yield ok("horizon", f"nothing holds vacuum back (oldest transaction {show_ms(oldest * 1_000)})")
