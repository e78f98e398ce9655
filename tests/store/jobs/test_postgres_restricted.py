"""Restricted options on PostgreSQL: what a tenant's login may set, and that it stalls nobody else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.types.json import Json

from headway import Done, Headway, Machine, Next, step
from headway.errors import NotAllowed
from headway.model.restricted import FIELDS, bounds_flaw, restricted
from headway.testing import drain, held
from tests.store.engine.test_postgres_roles import Roles

ONCE_A_YEAR = "rate_count => 1, rate_period => '365 days'"


class Site:
    """An app whose worker declared its kinds, a tenant's login, and the owner's."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.app = Headway(roles.url)
        self.app.job(name="send", queue="mail", timeout="1m", rate="20/s")(_nothing)
        self.app.job(
            name="free",
            enqueuer_may={"queue": ["default", "mail"], "timeout": "5m", "rate": True, "concurrency": True},
            rate="20/s",
            concurrency=50,
        )(_nothing)
        self.app.job(name="keyed", partition="p-{n}", concurrency=1, concurrency_key="{n}")(_keyed)
        self.app.machine(Walk)
        drain(self.app)
        self.owner = psycopg.connect(roles.url, autocommit=True)
        self.acme = psycopg.connect(roles.url_of("acme"), autocommit=True)

    def close(self) -> None:
        self.acme.close()
        self.owner.close()
        self.app.close()

    def job(self, sql: str) -> dict[str, Any]:
        """What an enqueue of the tenant's login gave its job."""
        row = self.acme.execute(f"select job_id from {sql}".encode()).fetchone()
        assert row
        columns = ", ".join(FIELDS)
        found = self.owner.execute(f"select {columns} from headway.jobs where id = %s".encode(), row).fetchone()
        assert found
        return {name: value for name, value in zip(FIELDS, found, strict=True) if value is not None}

    def count(self) -> int:
        row = self.owner.execute("select count(*) from headway.jobs").fetchone()
        assert row
        return int(row[0])


def _nothing() -> None:
    pass


class Walk(Machine, queue="home", name="walk"):
    n: int = 0

    @step(queue="intake")
    def start(self, ctx: Any) -> Any:
        del ctx
        return Next("later")

    @step(queue="far")
    def later(self, ctx: Any) -> Any:
        del ctx
        return Done()


def _keyed(n: int) -> None:
    del n


@pytest.fixture
def site(postgres_url_with_roles: str) -> Iterator[Site]:
    roles = Roles(postgres_url_with_roles)
    site = Site(roles)
    yield site
    site.close()
    roles.drop()


def test_a_tenants_rate_does_not_stall_the_kind_for_others(site: Site) -> None:
    before = site.count()
    with pytest.raises(psycopg.Error, match='kind "send" does not let its enqueuers set rate:') as refusal:
        site.acme.execute(f"select headway.enqueue('send', {ONCE_A_YEAR})")
    assert refusal.value.sqlstate == "HW003"
    assert site.count() == before
    with held(site.app) as clock:
        theirs = [site.app.enqueue("free", tenant="globex").id for _ in range(30)]
        for _ in range(2):
            site.acme.execute(f"select headway.enqueue('free', {ONCE_A_YEAR}, priority => 1)")
        drain(site.app)
        clock.advance("1s")
        drain(site.app)
    assert {site.app.get(job).status for job in theirs} == {"succeeded"}
    assert sorted(job.status for job in site.app.tenant("acme").jobs(kind="free")) == ["queued", "succeeded"]


def test_a_raw_enqueue_gets_what_its_kind_says(site: Site) -> None:
    own = {"queue": "mail", "timeout_ms": 60_000, "rate_count": 20, "rate_period_ms": 1_000}
    assert site.job("headway.enqueue('send')") == own
    assert site.job("headway.enqueue('send', queue => 'mail', timeout => '1 min')") == own
    site.acme.execute("select * from headway.enqueue_many(array[headway.uuid7(), headway.uuid7()], array['send', 'k'])")
    found = site.owner.execute(
        "select kind, queue, timeout_ms, rate_count from headway.jobs order by position desc limit 2"
    ).fetchall()
    assert sorted(found) == [("k", "default", None, None), ("send", "mail", 60_000, 20)]


def test_what_is_not_allowed_is_refused_and_nothing_is_written(site: Site) -> None:
    before = site.count()
    for options in (
        "queue => 'x'",
        "timeout => '2 min'",
        "partition => 'x'",
        "concurrency => 1",
        "rate_key => 'x'",
        "rate_burst => 9",
        """checkpoint => '{"home_queue": "x"}'""",
        """checkpoint => '{"home_partition": "x"}'""",
    ):
        with pytest.raises(psycopg.Error, match="does not let its enqueuers set") as refusal:
            site.acme.execute(f"select headway.enqueue('send', {options})".encode())
        assert refusal.value.sqlstate == "HW003"
    assert site.count() == before


def test_one_job_of_a_batch_that_asks_too_much_refuses_the_batch(site: Site) -> None:
    before = site.count()
    with pytest.raises(psycopg.Error, match="timeout to at most 300000ms, not to 300001ms"):
        site.acme.execute(
            "select * from headway.enqueue_many(array[headway.uuid7(), headway.uuid7()], array['send', 'free'],"
            " p_timeouts_ms => array[null, 300001])"
        )
    assert site.count() == before


def test_trusted_callers_set_what_they_like(site: Site) -> None:
    site.owner.execute(f"select headway.enqueue('send', queue => 'x', {ONCE_A_YEAR})")
    site.app.enqueue("send", tenant="acme", queue="y", rate="1/365d", timeout="1h")
    with psycopg.connect(site.roles.url_of("worker"), autocommit=True) as worker:
        worker.execute("select headway.enqueue('send', queue => 'z')")


def test_the_library_under_the_app_role_enqueues_the_kinds_it_has(site: Site) -> None:
    web = Headway(site.roles.url_of("acme"), tenant="acme")
    send = web.job(name="send", queue="mail", timeout="1m", rate="20/s")(_nothing)
    keyed = web.job(name="keyed", partition="p-{n}", concurrency=1, concurrency_key="{n}")(_keyed)
    acme = web.tenant("acme")
    try:
        assert acme.get(send.using(tenant="acme").enqueue().id).queue == "mail"
        assert acme.get(keyed.using(tenant="acme").enqueue(n=3).id).partition == "p-3"
        with pytest.raises(NotAllowed, match='kind "send" does not let its enqueuers set queue'):
            send.using(tenant="acme", queue="other").enqueue()
        # the code's word is as good as none: this process has not heard yet
        site.app.change_definition("send", queue="post", timeout="7s")
        job = acme.get(send.using(tenant="acme").enqueue().id)
        assert (job.queue, job.timeout_ms) == ("post", 7_000)
    finally:
        web.close()


def test_a_machine_begins_and_forks_in_the_queues_of_its_steps(site: Site) -> None:
    web = Headway(site.roles.url_of("acme"))
    web.machine(Walk)
    acme = web.tenant("acme")
    try:
        job = acme.get(acme.enqueue("walk").id)
        assert (job.queue, job.home_queue) == ("intake", "home")
        drain(site.app)
        forked = acme.get(acme.fork(job.id).id)
        assert (forked.queue, forked.home_queue) == ("far", "home")
        with pytest.raises(NotAllowed, match='kind "walk" does not let its enqueuers set queue'):
            acme.enqueue("walk", queue="mail")
    finally:
        web.close()


def test_a_job_is_changed_within_the_same_bounds(site: Site) -> None:
    row = site.acme.execute("select job_id from headway.enqueue('send')").fetchone()
    assert row
    for change in ('{"queue": "x"}', '{"timeout_ms": 5}', '{"timeout_ms": null}'):
        with pytest.raises(psycopg.Error, match="does not let its enqueuers set"):
            site.acme.execute("select headway.change(%s, %s)", (row[0], change))
    site.acme.execute("select headway.change(%s, %s)", (row[0], '{"priority": 3, "queue": "mail"}'))
    row = site.acme.execute("select job_id from headway.enqueue('free')").fetchone()
    assert row
    site.acme.execute("select headway.change(%s, %s)", (row[0], '{"queue": "mail", "timeout_ms": 300000}'))
    with pytest.raises(psycopg.Error, match="timeout to at most 300000ms, not to 300001ms"):
        site.acme.execute("select headway.change(%s, %s)", (row[0], '{"timeout_ms": 300001}'))
    site.app.change(str(row[0]), queue="anywhere")


# templates and triggers


REFUSED = [
    {"queue": "x"},
    {"timeout": "1h"},
    {"timeout": 61},
    {"timeout": None},
    {"partition": "{{x}}"},
    {"concurrency": 1},
    {"rate": "1/365d"},
    {"rate": None},
    {"burst": 3},
    {"rate_key": "x"},
]


def test_stored_options_obey_the_same_rule(site: Site) -> None:
    template = {"name": "t", "kind": "send"}
    trigger = {"name": "t", "type": "schedule", "every_ms": 60_000, "kind": "send"}
    for noun, value in (("template", template), ("trigger", trigger)):
        made = site.acme.execute(f"select headway.create_{noun}(%s)".encode(), (Json(value),)).fetchone()
        assert made
        for options in REFUSED:
            with pytest.raises(psycopg.Error, match='kind "send" does not let its enqueuers set') as refusal:
                site.acme.execute(
                    f"select headway.create_{noun}(%s)".encode(), (Json(value | {"name": "u", "options": options}),)
                )
            assert refusal.value.sqlstate == "HW003"
            with pytest.raises(psycopg.Error, match='kind "send" does not let its enqueuers set'):
                site.acme.execute(
                    f"select headway.change_{noun}(%s, %s)".encode(), (made[0], Json({"options": options}))
                )


def test_a_stored_limit_is_the_tenants_own(site: Site) -> None:
    options = {"rate": "1/365d", "concurrency": 2, "timeout": "5m", "priority": 3}
    made = site.acme.execute(
        "select headway.create_template(%s)", (Json({"name": "t", "kind": "free", "options": options}),)
    ).fetchone()
    assert made
    keys = {"rate_key": "tenant", "concurrency_key": "tenant"}
    assert site.app.tenant("acme").get_template("t").options == options | keys
    for over in ({"timeout": "5m1s"}, {"timeout": "{{x}}"}, {"queue": "{{x}}"}):
        with pytest.raises(psycopg.Error, match="lets its enqueuers set"):
            site.acme.execute("select headway.change_template(%s, %s)", (made[0], Json({"options": over})))
    with pytest.raises(psycopg.Error, match="options are not valid"):
        site.acme.execute("select headway.change_template(%s, %s)", (made[0], Json({"options": {"rate": "fast"}})))


def test_a_template_cannot_lead_its_triggers_to_a_kind_that_allows_less(site: Site) -> None:
    made = site.acme.execute("select headway.create_template(%s)", (Json({"name": "t", "kind": "free"}),)).fetchone()
    assert made
    trigger = {
        "name": "t",
        "type": "schedule",
        "every_ms": 60_000,
        "template_id": str(made[0]),
        "options": {"rate": "1/d"},
    }
    site.acme.execute("select headway.create_trigger(%s)", (Json(trigger),))
    with pytest.raises(psycopg.Error, match='kind "send" does not let its enqueuers set rate'):
        site.acme.execute("select headway.change_template(%s, %s)", (made[0], Json({"kind": "send"})))
    site.app.tenant("acme").change_template("t", kind="send")


def test_a_kind_that_is_not_active_takes_no_job_that_only_claims_to_continue_work(site: Site) -> None:
    site.app.change_definition("walk", active=False)
    own = "select headway.enqueue('walk', checkpoint => jsonb_build_object(%s::text, %s::text))"
    theirs = site.app.enqueue("free", tenant="acme").id
    for key in ("parent_id", "forked_from"):
        for job_id in (theirs, "01890000-0000-7000-8000-000000000001", "none"):
            with pytest.raises(psycopg.Error, match='kind "walk" is not active'):
                site.acme.execute(own, (key, job_id))
            with pytest.raises(psycopg.Error, match='kind "walk" is not active'):
                site.acme.execute(
                    "select headway.enqueue_many(array[gen_random_uuid()], array['walk'],"
                    " p_checkpoints => array[jsonb_build_object(%s::text, %s::text)])",
                    (key, job_id),
                )
    # a fork of what was begun is none of these
    site.app.change_definition("walk", active=True)
    begun = site.app.enqueue("walk", {"n": 1}, tenant="acme").id
    drain(site.app)
    site.app.change_definition("walk", active=False)
    app = Headway(site.roles.url_of("acme"))
    app.machine(Walk)
    assert app.fork(begun).created
    app.close()


_UNREADABLE: list[dict[str, Any]] = [
    {"colour": True},
    {"queue": "mail"},
    {"queue": []},
    {"queue": ["mail", 7]},
    {"queue": ["a b"]},
    {"timeout": "5m"},
    {"timeout": 0},
    {"timeout": 1.5},
    {"timeout": 3_162_240_000_001},
    {"concurrency": False},
    {"concurrency": None},
    {"concurrency": 1_000_001},
    {"rate": 5},
    {"rate": [100]},
    {"rate": [100, 60_000, 1]},
    {"rate": [100, True]},
    {"rate": [0, 60_000]},
    {"partition": "p"},
    {"rate_key": False},
]


def test_bounds_that_cannot_be_read_are_refused_in_the_models_words(site: Site) -> None:
    for may in _UNREADABLE:
        flaw = bounds_flaw(may)
        assert flaw is not None, may
        definition = {"kind": "free", "description": "", "max_attempts": 1, "queue": "q", "policy": {}}
        for call, given in (
            ("change_definition('free', %s)", {"enqueuer_may": may}),
            ("declare(%s, '[]')", [{**definition, "enqueuer_may": may}]),
        ):
            with pytest.raises(psycopg.Error) as refusal:
                site.owner.execute(f"select headway.{call}".encode(), (Json(given),))
            assert refusal.value.diag.message_primary == f'definition "free": {flaw}; nothing was stored', may
            assert refusal.value.sqlstate == "HW004"


# the same rule as the model's


def test_sql_and_model_agree_on_every_mixture(site: Site) -> None:
    chance = random.Random(3)
    for _round in range(250):
        policy = {
            name: chance.choice(values)
            for name, values in _SOME.items()
            if name not in ("queue", "timeout_ms") and chance.random() < 0.4
        }
        made = {"made_keys": ["rate_key"], "step_queues": ["b"]} if chance.random() < 0.3 else {}
        may = {name: chance.choice([True, bound]) for name, bound in _BOUNDS.items() if chance.random() < 0.6}
        site.owner.execute("delete from headway.definitions where kind = 'x'")
        if chance.random() < 0.95:
            site.owner.execute(
                "insert into headway.definitions"
                " (kind, created_at, updated_at, queue, timeout_ms, policy, enqueuer_may)"
                " values ('x', now(), now(), %s, %s, %s, %s)",
                (chance.choice("ab"), chance.choice([None, 7]), Json(policy | made), Json(may)),
            )
        asked = {name: chance.choice([None, *values]) for name, values in _SOME.items() if chance.random() < 0.4}
        definition = next((each for each in site.app.definitions() if each.kind == "x"), None)
        assert _by_sql(site.owner, asked) == _by_model(definition, asked), (msgspec.json.encode(definition), asked)


_SOME: dict[str, list[Any]] = {
    "queue": ["a", "b", "c"],
    "timeout_ms": [6, 7, 8],
    "partition": ["p", "q"],
    "concurrency": [1, 2, 3],
    "concurrency_key": ["k", "l"],
    "rate_count": [1, 10, 100],
    "rate_period_ms": [1_000, 60_000],
    "rate_burst": [1, 20],
    "rate_key": ["k", "l"],
}
_BOUNDS: dict[str, Any] = {
    "queue": ["a", "c"],
    "timeout": 7,
    "partition": True,
    "concurrency": 2,
    "concurrency_key": True,
    "rate": [10, 1_000],
    "rate_key": True,
}


def _by_model(definition: Any, asked: dict[str, Any]) -> object:
    try:
        return restricted("x", definition, asked)
    except NotAllowed as error:
        return str(error)


def _by_sql(owner: psycopg.Connection, asked: dict[str, Any]) -> object:
    try:
        row = owner.execute(
            "select * from headway.restrict('x', null, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [asked.get(name) for name in FIELDS],
        ).fetchone()
    except psycopg.Error as error:
        return error.diag.message_primary
    assert row
    return dict(zip(FIELDS, row, strict=True))
