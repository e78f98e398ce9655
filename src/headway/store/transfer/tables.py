"""What a transfer moves: the tables, which rows of each, and the columns that only one store has."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.errors import StoreError

Dialect = Literal["sqlite", "postgres"]

PAUSER = "headway transfer"
"""Who pauses the queues of the source; at the target such a queue is not paused."""


class Table(msgspec.Struct, frozen=True):
    """A table that is moved. `scope` is which rows are, without history: a condition on `t`; None: all."""

    name: str
    scope: str | None = None
    in_place: bool = False  # rows are updated, not deleted and inserted again


# Jobs that are moved even without history: unfinished ones; those that failed, which somebody may retry; holders of a
# key; and those that an unfinished job, group or train still looks at. It is written for a table `{t}` of jobs.
_JOBS = {
    "sqlite": "({t}.unique_key is not null and instr({t}.unique_scope, '\"' || {t}.status || '\"') > 0)",
    "postgres": "({t}.unique_key is not null and {t}.status = any ({t}.unique_scope))",
}
_JOB = """(
  {t}.finished_at is null
  or {t}.status in ('dead', 'failed')
  or {t}.idempotency_key is not null
  or {holds_key}
  or {t}.id in (select job_id from unique_windows as w)
  or {t}.id in (select job_id from holds as h where job_id is not null)
  or exists (
    select 1
    from edges as e
    join jobs as c on c.id = e.child_id
    where e.parent_id = {t}.id and c.finished_at is null
  )
  or exists (
    select 1
    from groups as g
    where g.id = {t}.group_id
      and (
        exists (select 1 from jobs as m where m.group_id = g.id and m.finished_at is null)
        or exists (select 1 from jobs as m where m.id = g.callback_id and m.finished_at is null)
      )
  )
)"""
_OF_A_JOB = "exists (select 1 from jobs as j where j.id = t.{column} and {job})"

# in the order in which they are copied: tenants before their former names, which a trigger checks them against
TABLES = (
    Table("tenants", in_place=True),
    Table("retired_slugs"),
    Table("definitions"),
    Table("templates"),
    Table("connector_configs"),
    Table("triggers"),
    Table("limits"),
    Table("queues"),
    Table("reservations"),
    Table("buckets"),
    Table("api_keys"),
    Table("sessions"),
    Table("requests"),
    Table("job_lists"),
    Table("jobs", "{own}"),
    Table("job_tags", _OF_A_JOB.replace("{column}", "job_id")),
    Table("job_errors", _OF_A_JOB.replace("{column}", "job_id")),
    Table("attempts", _OF_A_JOB.replace("{column}", "job_id")),
    Table("flow_journal", _OF_A_JOB.replace("{column}", "job_id")),
    Table("artifacts", _OF_A_JOB.replace("{column}", "job_id")),
    Table("artifact_trash"),
    Table("signals", _OF_A_JOB.replace("{column}", "job_id")),
    Table("edges", _OF_A_JOB.replace("{column}", "child_id")),
    Table("groups", "exists (select 1 from jobs as j where (j.group_id = t.id or j.id = t.callback_id) and {job})"),
    Table("unique_windows"),
    Table("holds"),
    Table("events", "t.status <> 'handled'"),
    Table("fires"),
    Table("audit", "false"),
    # without the audit its last seal goes along: the chain goes on from its hash
    Table("audit_seals", "t.n = (select max(n) from audit_seals)"),
    Table("stats", "false"),
    Table("errors"),
)

NOT_MOVED = {
    "arrivals": "processed at the source until none is left",
    "counters": "set at the switch, with PostgreSQL's sequences",
    "error_deltas": "added up at the source until none is left",
    "gone_workers": "ids of workers, which register again at the target",
    "gates": "rows to lock, the same everywhere",
    "install": "identifies one database",
    "schema_version": "belongs to one database",
    "schema_steps": "belong to one database",
    "stat_deltas": "added up at the source until none is left",
    "stat_samples": "which minute was sampled last",
    "sweeps": "where the next sweep starts",
    "tenant_roles": "logins belong to one server",
    "store_transfers": "about the transfer itself",
    "worker_claims": "of workers, and nothing runs",
    "workers": "register again at the target",
}

# columns that only one store has, and why they need not be read
ONLY_HERE: dict[Dialect, dict[tuple[str, str], str]] = {
    "sqlite": {
        ("jobs", "signaled"): "set at the switch, from the signals",
        ("queues", "guarded"): "set at the switch, from the jobs",
    },
    "postgres": {
        ("attempts", "tenant_id"): "its job's",
        ("flow_journal", "tenant_id"): "its job's",
        ("buckets", "counts"): "in SQLite a part of starts",
        ("queues", "fair_since"): "a transaction of this server",
        ("queues", "fair_again"): "a transaction of this server",
    },
}

REST = """
select (select count(*) from arrivals) + (select count(*) from stat_deltas) + (select count(*) from error_deltas)
"""
"""How much of what is not moved has to be done at the source first."""

ARTIFACT_STORES = "select distinct store from artifacts order by store"

SEALED = (*(table.name for table in TABLES), "workers")
"""The tables whose writes a sealed database refuses."""


class Column(msgspec.Struct, frozen=True):
    """A column as it is moved."""

    name: str
    type: str  # PostgreSQL's
    flattened: bool = False  # SQLite has 0 or [] where PostgreSQL has null


class Layout(msgspec.Struct, frozen=True):
    """A table with its columns, of which the first `keys` are its key, in order."""

    table: Table
    columns: tuple[Column, ...]
    keys: int

    @property
    def name(self) -> str:
        return self.table.name


class Found(msgspec.Struct, frozen=True):
    """A column in a catalogue."""

    type: str
    required: bool
    key: int = 0  # its place in the primary key, from 1


Catalogue = dict[str, dict[str, Found]]


def scope_of(table: Table, dialect: Dialect, *, history: bool) -> str:
    """The condition on `t` that the moved rows of a table meet."""
    if history or table.scope is None:
        return "true"
    own, job = (_JOB.replace("{holds_key}", _JOBS[dialect]).replace("{t}", alias) for alias in ("t", "j"))
    return table.scope.replace("{own}", own).replace("{job}", job)


def layouts(sqlite: Catalogue, postgres: Catalogue) -> list[Layout]:
    """The tables with their columns; raises `StoreError` where the catalogues do not fit together."""
    known = {table.name for table in TABLES} | NOT_MOVED.keys()
    for name in (sqlite.keys() | postgres.keys()) - known:
        raise StoreError(f"table {name} is neither moved nor left out: name it in store/transfer/tables.py")
    return [_layout(table, sqlite[table.name], postgres[table.name]) for table in TABLES]


def _layout(table: Table, sqlite: dict[str, Found], postgres: dict[str, Found]) -> Layout:
    for dialect, here, there in (("sqlite", sqlite, postgres), ("postgres", postgres, sqlite)):
        for name in here.keys() - there.keys():
            if (table.name, name) not in ONLY_HERE[dialect]:  # type: ignore[index]
                raise StoreError(f"{table.name}.{name} exists on one side only: name it in store/transfer/tables.py")
    columns = [
        Column(name, found.type, flattened=sqlite[name].required and not found.required)
        for name, found in postgres.items()
        if name in sqlite
    ]
    columns.sort(key=lambda column: postgres[column.name].key or 1_000)
    return Layout(table, tuple(columns), sum(found.key > 0 for found in postgres.values()))
