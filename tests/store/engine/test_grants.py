"""What a hostile login can do with each function that it may call: every grant has its line here, and every function is
called with everything that belongs to somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.config import DAY_MS, Settings
from headway.model.job_list import KEPT_MS as LIST_KEPT_MS
from headway.model.request import KEPT_MS as REQUEST_KEPT_MS
from tests.store.engine.test_postgres_roles import ACME, GLOBEX, Roles
from tests.store.engine.test_postgres_roles import roles as roles

# Why no argument does harm, and which functions it holds for. Both roles may call what BOTH names.
BOTH = {
    "acts for the caller's own tenant: another one's is refused, another one's rows are not found": """
        cancel change lock_row delete enqueue_many enqueue_plain enqueue move retry new_group cancel_group
        retry_group usage hold_train resume_train skip clear_train forked signal_many signal signal_key
        emit_many emit retry_events begin_run run_trigger begin_backfill backfill create_template
        change_template delete_template create_connector change_connector delete_connector create_trigger
        change_trigger delete_trigger listening begin_request finish_request keep_list read_list advance_list
        begin_payloads keep_payloads copy_journal forget""",
    "reads as the caller: row-level security decides": "stat_facts list event_patterns journal",
    "gives nothing that anybody owns": "time_bounds now uuid7 tenant",
    "gives what is set for queues, which all share, without who set it": "queue_settings",
    "gives the name of a suspended tenant to who knows its id": "refuse_suspended",
    "gives a bound login its own tenant only, and makes one for trusted callers only": "tenants_named",
}
APP = {
    "acts for the caller's own tenant; the table refuses a super admin's key of a tenant": """
        create_key list_keys revoke_key""",
}
# A worker is trusted with the jobs of all tenants, because it runs them: it can end, change and delete any. It is not
# trusted with what is known of others: who did what, and what went wrong.
WORKER = {
    "ends what it runs itself, by worker and fence": """
        claim claim_once take claimable running report release settle succeed settle_and_claim complete
        complete_many fail fail_many commit_outcome take_committed add_children begin_artifact keep_artifact
        heartbeat heartbeat_claims register retire unregister record begin_record add_called settle_step
        set_flow_state leave""",
    "does for all tenants what any worker does anyway": """
        fold_stats depths take_error_deltas add_errors promote retentions trash empty_trash reap
        process_arrivals sweep due begin_fires begin_handling signal_each record_fires declare queue_names""",
    "deletes what is over, which no argument changes": "prune_windows prune_sessions",
    "seals in an order and with hashes that it does not choose": "seal_audit",
    "deletes nothing younger than its retention (headway.kept_at_least), whatever age it asks for": """
        prune prune_audit prune_stats prune_errors prune_fires prune_requests prune_lists""",
    "is an operator's: leaves an entry of the audit": """
        declare_dead set_fair set_limit reserve unreserve change_definition delete_definition pause pause_all
        resume resume_all set_retention set_worker create_tenant rename_tenant set_tenant_zone suspend_tenant
        resume_tenant""",
    "only reads": "tenant_rows first_in_line flow_news is_called",
}


def _names(reasons: dict[str, str]) -> set[str]:
    names = [name for each in reasons.values() for name in each.split()]
    assert len(names) == len(set(names))
    return set(names)


def _granted(owner: psycopg.Connection[Any], login: str) -> dict[str, list[tuple[str, str, bool]]]:
    """The functions that a login may call, each with its arguments: name, type, whether it can be left out."""
    return {
        name: [
            (*each, place >= len(types) - optional) for place, each in enumerate(zip(names or [], types, strict=False))
        ]
        for name, names, types, optional in owner.execute(
            "select p.proname, p.proargnames, array(select format_type(t, null) from unnest(p.proargtypes) t),"
            " p.pronargdefaults from pg_proc p"
            " where p.pronamespace = 'headway'::regnamespace and has_function_privilege(%s, p.oid, 'execute')",
            (login,),
        )
    }


def test_every_grant_has_its_reason(roles: Roles) -> None:
    with psycopg.connect(roles.url) as owner:
        assert set(_granted(owner, roles.login("app"))) == _names(BOTH) | _names(APP)
        assert set(_granted(owner, roles.login("worker"))) == _names(BOTH) | _names(WORKER)


def test_the_usual_retentions_are_those_of_the_settings(roles: Roles) -> None:
    with psycopg.connect(roles.url) as owner:
        for name, kept_ms in Settings().retention_ms.items():
            assert owner.execute("select headway.usual_retention(%s)", (name,)).fetchone() == (kept_ms,), name
        for name in ("something", None):
            assert owner.execute("select headway.usual_retention(%s)", (name,)).fetchone() > (10 * 365 * 86_400_000,)
    assert (REQUEST_KEPT_MS, LIST_KEPT_MS) == (86_400_000, 600_000)  # as in requests.sql and job_lists.sql


def test_the_owner_stores_what_workers_keep(roles: Roles) -> None:
    with closing(Headway(roles.url, retention={"audit": "30d"})) as app:
        app.migrate()
    with psycopg.connect(roles.url, autocommit=True) as owner:
        kept = {name: _usual(owner, name) for name in ("audit", "errors", "something")}
        assert kept == {"audit": 30 * DAY_MS, "errors": 90 * DAY_MS, "something": 36_500 * DAY_MS}
        for days in (31, 29):
            at = f"now() - interval '{days} days'"
            owner.execute(f"insert into headway.audit (at, action) values ({at}, 'x')")
            owner.execute("select headway.seal_audit(10)")
    with psycopg.connect(roles.url_of("worker"), autocommit=True) as conn:
        assert conn.execute("select headway.prune_audit(0, 100)").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select headway.set_usual_retention('{}')")
    with closing(Headway(roles.url)) as app:
        app.migrate()
    with psycopg.connect(roles.url, autocommit=True) as owner:
        assert _usual(owner, "audit") == 365 * DAY_MS


def _usual(owner: psycopg.Connection[Any], name: str) -> Any:
    return owner.execute("select headway.usual_retention(%s)", (name,)).fetchone()[0]  # type: ignore[index]


# what is young, and would be gone with an age of 0
_YOUNG = f"""
insert into headway.audit (tenant_id, at, actor, action) values
  ('{ACME}', now() - interval '364 days', 'ann', 'cancel');
insert into headway.stats (span, at, tenant_id, queue, kind) values
  ('minute', now() - interval '47 hours', '{ACME}', 'q', 'k'),
  ('hour', now() - interval '59 days', '{ACME}', 'q', 'k'),
  ('day', now() - interval '729 days', '{ACME}', 'q', 'k');
insert into headway.requests (tenant_id, key_id, route, key, body_hash, created_at) values
  ('{ACME}', 'k', 'POST /jobs', 'one', sha256('x'), now() - interval '23 hours');
insert into headway.job_lists (token, tenant_id, key_id, action, ids, created_at) values
  (gen_random_uuid(), '{ACME}', 'k', '{{}}', '{{}}', now() - interval '9 minutes');
insert into headway.events (id, tenant_id, name, payload, status, emitted_at, handled_at) values
  (gen_random_uuid(), '{ACME}', 'paid', '1', 'handled', now() - interval '6 days', now() - interval '6 days'),
  (gen_random_uuid(), '{ACME}', 'paid', '1', 'failed', now() - interval '29 days', now() - interval '29 days');
"""
_AGES = ["0", "-1", "null", "1", "-9223372036854775808", "9223372036854775807"]


def _pruning(age: str) -> list[str]:
    return [
        *(f"prune('{status}', {age}, 100000)" for status in ("succeeded", "failed", "dead", "canceled")),
        *(f"prune_stats('{span}', {age}, 100000)" for span in ("minute", "hour", "day")),
        f"prune_audit({age}, 100000)",
        f"prune_errors({age}, 100000)",
        f"prune_fires({age}, {age}, {age}, 100000)",
        f"prune_requests({age}, 100000)",
        f"prune_lists({age})",
    ]


def test_no_age_lets_a_worker_delete_what_is_young(roles: Roles) -> None:
    with psycopg.connect(roles.url, autocommit=True) as owner:
        worker = roles.store
        (job, *_), me = owner.execute("select array_agg(id) from headway.jobs").fetchone()[0], ACME
        owner.execute("select headway.register(%s, 'here')", (me,))
        owner.execute(
            "select headway.fail(%s, c.id, c.fence, 'broken', p_retryable => false)"
            " from headway.claim(%s, 'default', 1) c",
            (me, me),
        )
        worker.run(worker.ops.fold_errors(limit=10))
        owner.execute(_YOUNG)
        before = _everything(owner)
        assert job
        with psycopg.connect(roles.url_of("worker"), autocommit=True) as conn:
            for age in _AGES:
                for call in _pruning(age):
                    with suppress(psycopg.DataError):  # an age that no interval can be
                        assert conn.execute(f"select headway.{call}").fetchone() in ((0,), (None,)), call
        assert _everything(owner) == before
        # the owner may
        deleted = {call: owner.execute(f"select headway.{call}").fetchone()[0] for call in _pruning("-1")}
        assert sum(deleted.values()) >= 9, deleted


def _everything(owner: psycopg.Connection[Any], without: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """All rows of all tables, as text; entries of the audit without their seals, which come by themselves."""
    shown = {"audit": "concat_ws(' ', t.id, t.at, t.tenant_id, t.job_id, t.actor, t.action, t.detail)"}
    tables = owner.execute(
        "select relname from pg_class where relnamespace = 'headway'::regnamespace and relkind = 'r' order by 1"
    ).fetchall()
    return {
        table: [
            row for (row,) in owner.execute(f"select {shown.get(table, 't::text')} from headway.{table} t order by 1")
        ]
        for (table,) in tables
        if table not in without
    }


_TENANTS = ("p_tenant", "tenant", "p_tenants")


class Stranger:
    """Everything that a tenant has, and calls of functions with all of it."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.owner = psycopg.connect(roles.url, autocommit=True)
        self.become(GLOBEX)

    def become(self, tenant: str) -> None:
        """Give this tenant everything, and call with that from now on."""
        self.tenant = tenant
        for statement in _BELONGINGS:
            if tenant == GLOBEX or "create_key" not in statement:
                self.owner.execute(statement.replace("TENANT", tenant).encode())
        self.ids = {
            "p_trigger": self._ids("triggers"),
            "p_group": self._ids("groups"),
            "group": self._ids("groups"),
            "p_of": self._ids("triggers"),
        }
        every = [each for table in _WITH_IDS for each in self._ids(table)]
        self.any_id = every
        self.texts = {
            "p_train": ["night"],
            "train": ["night"],
            "kind": ["k"],
            "p_kind": ["k"],
            "p_kinds": ["k"],
            "unique_key": ["u"],
            "p_unique_keys": ["u"],
            "p_key_id": ["0123456789abcdef"],
            "p_id": ["0123456789abcdef"],
            "p_noun": ["job", "trigger", "template", "connector", "definition", "tenant", "worker", "setting"],
            "p_ref": [*every, "queue default", "k"],
            "p_queue": ["default"],
            "p_status": ["queued", "succeeded"],
            "p_names": ["globex"],
            "slug": ["globex"],
            "p_slug": ["globex"],
            "p_slugs": ["globex"],
            "p_route": ["POST /jobs"],
            "p_key": ["one"],
            "p_actor": ["gus"],
        }

    def _ids(self, table: str) -> list[str]:
        found = self.owner.execute(f"select id::text from headway.{table} where tenant_id = %s", (self.tenant,))
        return [each for (each,) in found]

    def values(self, name: str, kind: str) -> list[Any]:
        """What somebody hostile would give for an argument of this name and type."""
        plain = kind.removesuffix("[]")
        if name in _TENANTS:
            found: list[Any] = [self.tenant, None]
        elif plain == "uuid":
            found = self.ids.get(name, self.any_id)
        elif plain == "text":
            found = self.texts.get(name, ["x"])
        elif plain in ("json", "jsonb"):
            found = [*_CHANGES, f'{{"tenant_id": "{self.tenant}", "name": "t", "kind": "k", "payload": {{}}}}']
        elif plain == "boolean":
            found = [True, False]
        elif plain in ("integer", "bigint", "smallint", "real", "double precision"):
            found = [0, 100]
        elif plain == "timestamp with time zone":
            found = ["2026-01-01T00:00:00Z"]
        elif plain == "interval":
            found = ["0 s"]
        elif plain == "bytea":
            found = [b"x" * 32]
        else:
            found = [None]
        if kind.endswith("[]"):
            return (
                [[each] for each in found]
                if plain != "uuid" or len(found) < 3
                else [found, *([each] for each in found)]
            )
        return found

    def calls(self, name: str, arguments: list[tuple[str, str, bool]]) -> Iterator[tuple[str, list[Any]]]:
        """Calls of a function: each value of every argument at least once, with and without the tenant."""
        used = [
            (argument, kind)
            for argument, kind, optional in arguments
            if not optional or kind.startswith("uuid") or argument in self.texts or argument in self.ids
        ]
        columns = [self.values(*each) for each in used]
        casts = ", ".join(f'"{argument}" => %s::{kind}' for argument, kind in used)
        for row in range(max(map(len, columns), default=1)):
            for tenant in (0, 1):
                yield (
                    f"select x::text from headway.{name}({casts}) x",
                    [
                        column[tenant if argument in _TENANTS else row % len(column)]
                        for (argument, _), column in zip(used, columns, strict=True)
                    ],
                )

    def close(self) -> None:
        self.owner.close()


_WITH_IDS = ("jobs", "triggers", "templates", "connector_configs", "groups", "events", "artifacts", "fires")
_BELONGINGS = [
    "select headway.enqueue('k', tenant => 'TENANT', unique_key => 'u', train => 'night', created_by => 'gus')",
    "select headway.enqueue('k', tenant => 'TENANT', train => 'night',"
    " after => array(select id from headway.jobs where unique_key = 'u' and tenant_id = 'TENANT'))",
    "select headway.new_group(gen_random_uuid(), p_tenant => 'TENANT')",
    "select headway.hold_train('night', 'TENANT', 'why', 'gus')",
    """select headway.create_template('{"tenant_id": "TENANT", "name": "t", "kind": "k"}', 'gus')""",
    """select headway.create_connector(
         '{"tenant_id": "TENANT", "name": "c", "kind": "webhook", "url": "http://a.b"}', 'gus')""",
    """select headway.create_trigger('{"tenant_id": "TENANT", "name": "t", "type": "schedule", "kind": "k",
         "cron": "* * * * *", "next_fire_at": "2099-01-01T00:00:00Z"}', 'gus')""",
    "select headway.emit('paid', tenant => 'TENANT')",
    "insert into headway.artifacts"
    " (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)"
    " select gen_random_uuid(), 'TENANT', j.id, 1, 'a', 'text/plain', 1, repeat('0', 64), 's', 'p', now()"
    " from headway.jobs j where j.unique_key = 'u' and j.tenant_id = 'TENANT'",
    "select headway.create_key('0123456789abcdef', sha256('x'), 'gus', 'admin', 'live', 'TENANT', '{}', '{}', null,"
    " 'gus', 'made')",
    "select headway.begin_request('TENANT', '0123456789abcdef', 'POST /jobs', 'one', sha256('x'), 1000)",
    "select headway.keep_list(gen_random_uuid(), 'TENANT', '0123456789abcdef', '{}', '{}')",
]
_CHANGES = ['{"priority": 1}', '{"name": "mine"}', '{"enabled": false, "active": false}', "[]", "null"]


@pytest.fixture
def stranger(roles: Roles) -> Iterator[Stranger]:
    stranger = Stranger(roles)
    yield stranger
    stranger.close()


def _call(conn: psycopg.Connection[Any], stranger: Stranger, login: str, names: set[str]) -> dict[str, str]:
    """Call these functions with everything; gives what those answered that did not refuse every call."""
    answers: dict[str, str] = {}
    for name, arguments in _granted(stranger.owner, login).items():
        if name in names:
            for statement, given in stranger.calls(name, arguments):
                try:
                    rows = conn.execute(statement.encode(), given).fetchall()
                    answers[name] = answers.get(name, "") + repr(rows)
                except psycopg.Error:
                    pass
    return answers


# what changes by itself, or what everybody may add to: numbers of what happens
_COUNTED = ("stat_deltas", "arrivals", "counters")


def test_a_tenants_login_changes_nothing_of_another_tenant_and_nothing_that_all_share(stranger: Stranger) -> None:
    names, login = _names(BOTH) | _names(APP), stranger.roles.login("acme")
    before = _others(stranger.owner)
    with psycopg.connect(stranger.roles.url_of("acme"), autocommit=True) as conn:
        answers = _call(conn, stranger, login, names)
    assert _others(stranger.owner) == before
    assert not [name for name, answer in answers.items() if "gus" in answer]
    # the calls are good ones: what a stranger is refused, the owner gets
    changes = set()
    with psycopg.connect(stranger.roles.url, autocommit=True) as conn:
        for name in names:
            with conn.transaction(force_rollback=True):
                for statement, given in stranger.calls(name, _granted(stranger.owner, login)[name]):
                    try:
                        with conn.transaction():
                            conn.execute(statement.encode(), given)
                    except psycopg.Error:
                        pass
                if _others(conn) != before:
                    changes.add(name)
    assert len(changes) > 20, changes


def test_a_workers_login_changes_no_entry_of_the_audit_and_no_key(stranger: Stranger) -> None:
    kept = ("audit", "api_keys", "sessions", "tenant_roles", "install", "retired_slugs")
    before = _everything(stranger.owner)
    login = stranger.roles.login("worker")
    with psycopg.connect(stranger.roles.url_of("worker"), autocommit=True) as conn:
        answers = _call(conn, stranger, login, set(_granted(stranger.owner, login)))
    after = _everything(stranger.owner)
    assert len(answers) > 80, answers.keys()
    assert after["jobs"] != before["jobs"]
    assert not [table for table in kept if not set(before[table]) <= set(after[table])]


def _others(owner: psycopg.Connection[Any]) -> dict[str, list[Any]]:
    """All rows but those of the tenant acme."""
    found = _everything(owner, _COUNTED)
    return {table: [row for row in rows if ACME not in row] for table, rows in found.items()}


def test_what_a_login_of_one_tenant_does_is_its_own(stranger: Stranger) -> None:
    """Whatever actor it gives to which function, and whatever it sets for its session."""
    roles, login = stranger.roles, stranger.roles.login("acme")
    stranger.become(ACME)
    stranger.owner.execute("select headway.seal_audit(500)")
    granted = _granted(stranger.owner, login)
    given = {name for name, arguments in granted.items() if any(each[0] == "p_actor" for each in arguments)}
    assert len(given) > 20
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        conn.execute("select set_config('headway.request_id', 'r1', false)")
        _call(conn, stranger, login, set(granted))
        conn.execute(f"set role headway_app_{conn.info.dbname}")
        conn.execute("select headway.enqueue('k', unique_key => 'v')")
        conn.execute(
            "select headway.cancel(array(select id from headway.jobs where unique_key = 'v'), p_actor => 'ada')"
        )
    found = stranger.owner.execute(
        "select actor, actor_name, action from headway.audit where seal is null order by id"
    ).fetchall()
    assert {actor for actor, *_ in found} == {f"login:{login}"}
    assert {name for _, name, _ in found} >= {"ada", "gus"}
    assert len({action for *_, action in found}) > 8, found
    # another login of the role, which names its tenant itself, is trusted with the actor, too
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
        conn.execute("select headway.hold_train('x', null, 'why', 'eve')")
    last = stranger.owner.execute("select actor from headway.audit order by id desc limit 1").fetchone()
    assert last == ("eve",)
