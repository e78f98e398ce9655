"""Who may do what on PostgreSQL: each role on a fresh and on a warm connection, failing closed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import headway
from headway import Headway
from headway.errors import NotAllowed, NotFound
from headway.store import migrate
from headway.store.postgres.store import PostgresStore
from tests.docs.docs_pages import ROOT, section
from tests.store.db import new_worker
from tests.tenant_ids import tenant_id

ACME, GLOBEX = tenant_id("acme"), tenant_id("globex")


class Roles:
    """Logins of each role on one database, which has the roles already."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.suffix = uuid.uuid4().hex[:8]
        self.store = PostgresStore(url)
        with psycopg.connect(url, autocommit=True) as owner:
            for name in ("worker", "app", "acme", "nobody"):
                owner.execute(f"create role {self.login(name)} login password 'x'")
            owner.execute("select headway.grant_worker(%s)", (self.login("worker"),))
            for name in ("app", "acme"):
                owner.execute("select headway.grant_app(%s)", (self.login(name),))
            owner.execute(
                "insert into headway.tenants (id, slug, created_at) values (%s, 'acme', now()), (%s, 'globex', now())",
                (ACME, GLOBEX),
            )
            owner.execute(
                "insert into headway.tenant_roles (role, tenant_id) values (%s::regrole, %s)",
                (self.login("acme"), ACME),
            )

    def login(self, name: str) -> str:
        return f"hw_{name}_{self.suffix}"

    def url_of(self, name: str) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{self.login(name)}:x@{host}"))

    def drop(self) -> None:
        self.store.close()
        with psycopg.connect(self.url, autocommit=True) as owner:
            for name in ("worker", "app", "acme", "nobody"):
                owner.execute(f"drop owned by {self.login(name)}")
                owner.execute(f"drop role {self.login(name)}")


@pytest.fixture
def roles(postgres_url_with_roles: str) -> Iterator[Roles]:
    roles = Roles(postgres_url_with_roles)
    app = Headway(postgres_url_with_roles)
    app.enqueue("k", {"of": "acme"}, tenant="acme")
    app.enqueue("k", {"of": "globex"}, tenant="globex")
    app.close()
    yield roles
    roles.drop()


def _count(conn: psycopg.Connection, table: str = "jobs") -> int:
    row = conn.execute(f"select count(*) from headway.{table}").fetchone()
    assert row
    return row[0]


def test_an_app_session_without_a_tenant_sees_no_rows_and_may_do_nothing(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        for _warm in range(7):  # the plan cache turns generic after five
            assert _count(conn) == 0
            assert _count(conn, "tenants") == 0
        with pytest.raises(psycopg.Error, match="has no tenant"):
            conn.execute("select headway.enqueue('k')")


def test_an_app_session_sees_and_changes_only_the_tenant_it_set(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        for tenant in (ACME, GLOBEX, ACME):
            conn.execute("select set_config('headway.tenant_id', %s, false)", (tenant,))
            rows = conn.execute("select tenant_id::text, id from headway.jobs").fetchall()
            assert {row[0] for row in rows} == {tenant}
        with pytest.raises(psycopg.Error, match="may act for tenant"):
            conn.execute("select headway.enqueue('k', tenant => %s)", (GLOBEX,))
        foreign = (
            conn.execute("select set_config('headway.tenant_id', %s, false)", (GLOBEX,))
            and conn.execute("select id from headway.jobs").fetchone()
        )
        conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
        assert foreign
        assert conn.execute("select * from headway.cancel(%s)", ([foreign[0]],)).fetchall() == []
        conn.execute("select set_config('headway.tenant_id', '', false)")
        assert _count(conn) == 0


def test_a_login_mapped_to_a_tenant_stays_that_tenant_whatever_its_session_says(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        conn.execute("select set_config('headway.tenant_id', %s, false)", (GLOBEX,))
        rows = conn.execute("select distinct tenant_id::text from headway.jobs").fetchall()
        assert rows == [(ACME,)]
        with pytest.raises(psycopg.Error, match="may act for tenant"):
            conn.execute("select headway.enqueue('k', tenant => %s)", (GLOBEX,))


def test_a_mapped_login_stays_its_tenant_after_set_role(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        conn.execute(f"set role headway_app_{conn.info.dbname}")
        conn.execute("select set_config('headway.tenant_id', %s, false)", (GLOBEX,))
        assert conn.execute("select distinct tenant_id::text from headway.jobs").fetchall() == [(ACME,)]
        with pytest.raises(psycopg.Error, match="may act for tenant"):
            conn.execute("select headway.enqueue('k', tenant => %s)", (GLOBEX,))


_AROUND_THE_FUNCTIONS = [
    "insert into headway.jobs (id, tenant_id, kind, status, created_at) "
    "values (gen_random_uuid(), gen_random_uuid(), 'k', 'queued', now())",
    "update headway.jobs set priority = 1",
    "delete from headway.jobs",
    "truncate headway.attempts",
    "insert into headway.tenant_roles values (current_user::regrole, gen_random_uuid())",
    "select * from headway.tenant_roles",
    "select * from headway.workers",
    "select * from headway.claim(gen_random_uuid(), 'default', 10)",
    "select * from headway.settle(gen_random_uuid(), '{}', '{}', '{}', '{}')",
    "select * from headway.reap('{}', 10)",
    "select headway.pause('default', 'me')",
    "select headway.prune('succeeded', 0, 10)",
    "select headway.supersede(gen_random_uuid(), now())",
]


def test_an_app_login_cannot_go_around_its_functions(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
        for statement in _AROUND_THE_FUNCTIONS:
            try:
                conn.execute(statement.encode())
            except psycopg.errors.InsufficientPrivilege:
                continue
            pytest.fail(f"it may {statement}")


def test_a_worker_login_sees_every_tenant_and_writes_only_through_functions(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("worker"), autocommit=True) as conn:
        assert _count(conn) == 2
        for statement in ("update headway.jobs set priority = 1", "delete from headway.attempts"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)


def test_a_worker_login_runs_jobs_of_every_tenant(roles: Roles) -> None:
    app = Headway(roles.url_of("worker"))
    seen = []

    @app.job
    def k(of: str) -> None:
        seen.append(of)

    summary = app.run(until_idle=True)
    app.close()
    assert (sorted(seen), summary.succeeded) == (["acme", "globex"], 2)


def _documented(chapter: str) -> set[str]:
    return set(
        re.findall(r"^### headway\.(\w+)$", section(ROOT / "docs" / "reference" / "sql.md", chapter), re.MULTILINE)
    )


def test_a_role_may_call_the_functions_that_the_reference_gives_it_and_no_others(roles: Roles) -> None:
    with psycopg.connect(roles.url) as owner:
        may = {
            name: {
                function
                for (function,) in owner.execute(
                    "select p.proname from pg_proc p where p.pronamespace = 'headway'::regnamespace"
                    " and has_function_privilege(%s, p.oid, 'execute')",
                    (roles.login(name),),
                )
            }
            for name in ("worker", "app", "nobody")
        }
    everybody, operators = _documented("For applications"), _documented("For operators")
    assert may["worker"] == everybody | _documented("For workers") | operators - {
        "grant_worker",
        "grant_app",
        "delete_tenant",
    }
    for_own_tenant = {"queue_settings", "usage", "create_key", "list_keys", "revoke_key"}
    assert may["app"] == everybody | for_own_tenant
    assert may["nobody"] == set()


def test_a_login_without_a_role_can_do_nothing(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("nobody"), autocommit=True) as conn:
        for statement in ("select * from headway.jobs", "select headway.enqueue('k')", "select headway.now()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)


def test_the_app_facade_acts_for_one_tenant_under_the_app_role(roles: Roles) -> None:
    app = Headway(roles.url_of("app"))
    acme = app.tenant("acme")
    job = acme.enqueue("k", {"x": 1})
    assert acme.get(job.id).tenant == "acme"
    assert {found.tenant_id for found in acme.jobs()} == {ACME}
    assert acme.cancel(job.id) == "canceled"
    assert acme.retry(job.id) == job.id
    assert acme.why(job.id).status == "queued"
    assert acme.counts() == {"queued": 2}
    assert app.jobs() == []  # no tenant, no rows
    with pytest.raises(NotAllowed):
        app.enqueue("k", {"x": 1}, tenant="acme")  # this session did not set one
    with pytest.raises(NotAllowed):
        acme.enqueue("k", {"x": 1}, tenant="globex")
    app.close()


def test_setting_a_role_inside_a_session_counts_as_that_role(roles: Roles) -> None:
    with psycopg.connect(roles.url, autocommit=True) as conn:
        conn.execute(f"set role {roles.login('app')}")
        assert _count(conn) == 0
        with pytest.raises(psycopg.Error, match="has no tenant"):
            conn.execute("select headway.enqueue('k')")


def test_a_plain_database_owner_without_createrole_installs_and_runs_everything(databases, roles: Roles) -> None:
    owner = roles.login("owner")
    name = databases.create()
    try:
        with psycopg.connect(roles.url, autocommit=True) as admin:
            admin.execute(f"create role {owner} login password 'x' nocreaterole nosuperuser")
            admin.execute(f"alter database {name} owner to {owner}")
        parts = urlsplit(databases.url(name))
        host = parts.netloc.rpartition("@")[2]
        url = urlunsplit(parts._replace(netloc=f"{owner}:x@{host}"))
        store = PostgresStore(url)
        assert migrate.apply(store)
        app = Headway(url)

        @app.job
        def k(n: int) -> int:
            return n + 1

        job = k.using(tenant="acme").enqueue(n=1)
        app.run(until_idle=True)
        assert app.result(job.id, timeout=0).value == 2
        assert app.tenant("acme").get(job.id).status == "succeeded"
        app.close()
    finally:
        databases.drop(name)
        with psycopg.connect(roles.url, autocommit=True) as admin:
            admin.execute(f"drop role if exists {owner}")


def test_what_a_role_may_not_do_is_not_allowed_in_words(roles: Roles) -> None:
    app = Headway(roles.url_of("app"))
    with pytest.raises(NotAllowed, match=r"headway\.grant_worker"):
        app.pause("default")
    app.close()


def test_a_role_that_is_made_anew_under_its_name_is_nobody(roles: Roles) -> None:
    login = roles.login("acme")
    with psycopg.connect(roles.url, autocommit=True) as owner:
        owner.execute(f"drop owned by {login}")
        owner.execute(f"drop role {login}")
        owner.execute(f"create role {login} login password 'x'")
        owner.execute("select headway.grant_app(%s)", (login,))
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        assert conn.execute("select headway.tenant()").fetchone() == (None,)
        assert conn.execute("select count(*) from headway.jobs").fetchone() == (0,)


def test_a_login_is_mapped_to_its_tenant_by_name(roles: Roles) -> None:
    with psycopg.connect(roles.url, autocommit=True) as owner:
        owner.execute("select headway.grant_app(%s, 'globex')", (roles.login("nobody"),))
        with pytest.raises(psycopg.Error, match="there is no tenant nowhere"):
            owner.execute("select headway.grant_app(%s, 'nowhere')", (roles.login("app"),))
    with psycopg.connect(roles.url_of("nobody"), autocommit=True) as conn:
        rows = conn.execute("select payload ->> 'of' from headway.jobs").fetchall()
    assert rows == [("globex",)]


def test_a_login_of_one_database_can_do_nothing_in_another(roles: Roles, postgres_url: str) -> None:
    with closing(PostgresStore(postgres_url)) as store:
        migrate.apply(store)
        migrate.roles(store)
    parts = urlsplit(postgres_url)
    elsewhere = urlunsplit(urlsplit(roles.url_of("worker"))._replace(path=parts.path))
    with psycopg.connect(elsewhere, autocommit=True) as conn:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select * from headway.jobs")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select headway.claim(gen_random_uuid(), 'default', 1)")


def test_a_database_that_did_not_ask_has_no_grants(postgres_migrated_url: str) -> None:
    with psycopg.connect(postgres_migrated_url, autocommit=True) as owner:
        role = f"headway_worker_{owner.info.dbname}"
        owner.execute(f"create role {role}")  # left behind by a database of the same name
        try:
            owner.execute("comment on table headway.jobs is 'headway schema version 1'")  # install the functions anew
            headway.migrate(owner)
            assert owner.execute("select has_schema_privilege(%s, 'headway', 'usage')", (role,)).fetchone() == (False,)
            with pytest.raises(psycopg.Error, match="headway migrate --roles"):
                owner.execute("select headway.grant_worker(%s)", (role,))
        finally:
            owner.execute(f"drop role {role}")


def test_no_tenant_comes_into_being_by_an_app_session(roles: Roles) -> None:
    new = str(uuid.uuid4())
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        conn.execute("select set_config('headway.tenant_id', %s, false)", (new,))
        for statement in (
            "select headway.enqueue('k')",
            f"select headway.enqueue('k', tenant => '{new}', slug => 'mine')",
            "select headway.emit('paid')",
            """select headway.create_template('{"name": "t", "kind": "k"}')""",
        ):
            with pytest.raises(psycopg.Error, match="has no tenant"):
                conn.execute(statement)
        assert conn.execute("select * from headway.tenants_named('{mine}', true)").fetchall() == []
        for statement in (
            "update headway.tenants set slug = 'x'",
            "insert into headway.tenants values (%s, 'x', now())",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement, (new,) if "%s" in statement else None)


def test_a_mapped_login_finds_no_other_tenant(roles: Roles) -> None:
    names = "select name from headway.tenants_named('{acme,globex,nobody,default}', true)"
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        assert conn.execute(names).fetchall() == [("acme",)]
    app = Headway(roles.url_of("acme"))
    assert {job.tenant for job in app.tenant("acme").jobs()} == {"acme"}
    for name in ("globex", "nobody"):
        assert app.tenant(name).jobs() == []
        with pytest.raises(NotFound, match=f"there is no tenant {name}"):
            app.enqueue("k", tenant=name)
    app.close()


def test_an_apps_login_acts_for_the_tenants_that_it_names(roles: Roles) -> None:
    app = Headway(roles.url_of("app"))
    for name in ("acme", "globex"):
        verbs = app.tenant(name)
        job = verbs.enqueue("k", {"of": name})
        assert verbs.get(job.id).tenant == name
        verbs.cancel(job.id)
    app.close()


def test_list_gives_each_login_its_own_tenants_jobs(roles: Roles) -> None:
    app = Headway(roles.url)
    app.enqueue("other", tenant="acme", tags=("red",), queue="slow", delay="1h")
    app.close()

    def kinds(conn: psycopg.Connection, given: str = "") -> list[tuple[str, str]]:
        rows = conn.execute(f"select kind, tenant_id::text from headway.list({given})").fetchall()
        return [(kind, "acme" if tenant == ACME else "globex") for kind, tenant in rows]

    for name in ("worker", "acme", "app"):
        with psycopg.connect(roles.url_of(name), autocommit=True) as conn:
            everything = [("other", "acme"), ("k", "globex"), ("k", "acme")]
            mine = [each for each in everything if each[1] == "acme"]
            if name == "app":
                assert kinds(conn) == []  # without a tenant it sees nothing
                conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
            seen = everything if name == "worker" else mine
            assert kinds(conn) == seen
            assert kinds(conn, f"tenant => '{GLOBEX}'") == [each for each in seen if each[1] == "globex"]
            for given in (
                "status => '{scheduled}'",
                "kind => '{other,nothing}'",
                "queue => '{slow}'",
                "tag => 'red'",
                '"limit" => 1',
            ):
                assert kinds(conn, given) == [("other", "acme")], given
            newest = conn.execute('select id from headway.list("limit" => 1)').fetchone()
            assert newest
            assert kinds(conn, f"before => '{newest[0]}'") == seen[1:]
            assert kinds(conn, "created_after => now() + interval '1 day'") == []
    with psycopg.connect(roles.url_of("nobody"), autocommit=True) as conn, pytest.raises(psycopg.Error):
        kinds(conn)


def test_a_login_reads_the_numbers_of_its_own_tenant(roles: Roles) -> None:
    for _folded in range(2):
        with closing(Headway(roles.url_of("acme"), tenant="acme")) as app:
            found = app.stats("day", by="tenant")
            assert [(stat.tenant_id, stat.enqueued) for stat in found] == [(ACME, 1)]
        with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
            assert _count(conn, "stats") == _count(conn, "stat_deltas") == 0
            assert _count(conn, "errors") == _count(conn, "error_deltas") == _count(conn, "job_errors") == 0
        worker = PostgresStore(roles.url_of("worker"))
        worker.run(worker.ops.fold_stats(limit=100, depths=worker.run(worker.ops.depths())))
        worker.close()


def test_a_login_reads_the_errors_of_its_own_tenant(roles: Roles) -> None:
    worker = PostgresStore(roles.url_of("worker"))
    me = new_worker()
    worker.run(worker.ops.register(me))
    with psycopg.connect(roles.url_of("worker"), autocommit=True) as conn:
        for claim in worker.run(worker.ops.claim(me.id, "default", 10)):
            conn.execute(
                "select headway.fail(%s, %s, %s, 'no user 7', p_retryable => false)", (me.id, claim.id, claim.fence)
            )
    for folded in range(2):
        with closing(Headway(roles.url_of("acme"), tenant="acme")) as app:
            (group,) = app.errors()
            assert (group.tenant_id, group.count, group.message) == (ACME, 1, "no user 7")
            assert [job.tenant_id for job in app.jobs(error=group.fingerprint)] == [ACME]
        with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
            listed = conn.execute(
                "select tenant_id::text from headway.list(error => %s)", (group.fingerprint,)
            ).fetchall()
            assert listed == [(ACME,)] * folded  # SQL sees what is added up
            assert _count(conn, "errors") == _count(conn, "job_errors") == folded
            for denied in ("take_error_deltas(10)", "prune_errors(0, 10)"):
                with pytest.raises(psycopg.Error, match="permission denied"):
                    conn.execute(f"select headway.{denied}")
        worker.run(worker.ops.fold_errors(limit=100))
    worker.close()
