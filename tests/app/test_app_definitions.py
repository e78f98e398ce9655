"""Definitions and templates through the app: what the code says, what operators make of it, and what jobs follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from headway import Headway, Machine, step
from headway.errors import Duplicate, InvalidJob, InvalidPayload, NotAllowed, NotFound
from headway.model.definition import NewDefinition
from headway.model.outcome import Done
from headway.model.trigger import Declaration
from headway.testing import drain

Call = Callable[..., Any]
SCHEMA = {
    "type": "object",
    "properties": {"user_id": {"type": "integer", "minimum": 1}, "mail": {"type": "string", "format": "email"}},
    "required": ["user_id"],
}


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def welcome(app: Headway, ran: list[Any]) -> Any:
    @app.job(queue="mail", max_attempts=3, timeout="30s", priority=7, schema=SCHEMA)
    def welcome(user_id: Any, mail: str = "a@example.org") -> None:
        """Say hello
        to somebody new.

        And more."""
        ran.append(user_id)

    drain(app)  # a worker that starts declares it
    return welcome


@pytest.fixture
def elsewhere(url: str) -> Any:
    """An app on the same database without the code."""
    other = Headway(url)
    yield other
    other.close()


def test_a_worker_writes_what_the_code_says(app: Headway, call: Call, welcome: Any) -> None:
    (definition,) = call(app, "definitions")
    assert definition == call(app, "get_definition", "welcome")
    assert (definition.queue, definition.max_attempts, definition.timeout_ms) == ("mail", 3, 30_000)
    assert (definition.schema, definition.description) == (SCHEMA, "Say hello to somebody new.")
    assert (definition.active, definition.changed, definition.origin, definition.computed) == (True, (), "code", False)
    assert definition.policy == {"priority": 7, "max_losses": 3}
    with pytest.raises(NotFound, match="no definition"):
        call(app, "get_definition", "other")


def test_who_has_not_the_code_enqueues_as_the_definition_says(
    app: Headway, elsewhere: Headway, welcome: Any, ran: list[Any]
) -> None:
    job = elsewhere.get(elsewhere.enqueue("welcome", {"user_id": 7}).id)
    assert (job.queue, job.max_attempts, job.max_losses, job.timeout_ms, job.priority) == ("mail", 3, 3, 30_000, 7)
    with pytest.raises(InvalidPayload, match=r"at \$\.user_id"):
        elsewhere.enqueue("welcome", {"user_id": 0})
    with pytest.raises(InvalidPayload, match=r"at \$\.mail"):
        elsewhere.enqueue("welcome", {"user_id": 1, "mail": "nobody"})
    drain(app)
    assert ran == [7]


def test_a_definition_is_heard_of_through_the_callers_own_connection(
    elsewhere: Headway, url: str, welcome: Any
) -> None:
    conn: Any = psycopg.connect(url) if url.startswith("postgresql") else apsw.Connection(url[len("sqlite:///") :])
    try:
        job = elsewhere.enqueue("welcome", {"user_id": 7}, conn=conn)
        with pytest.raises(InvalidPayload, match=r"at \$\.user_id"):
            elsewhere.enqueue("welcome", {"user_id": 0}, conn=conn)
        if url.startswith("postgresql"):
            conn.commit()
    finally:
        conn.close()
    assert elsewhere.get(job.id).queue == "mail"


def test_what_an_operator_changed_goes_over_the_code(app: Headway, call: Call, welcome: Any) -> None:
    changed = call(
        app,
        "change_definition",
        "welcome",
        max_attempts=9,
        queue="slow",
        timeout=None,
        schema={"type": "object", "properties": {"user_id": {"type": "string"}}},
        description="changed",
        actor="ada",
    )
    assert changed.changed == ("description", "schema", "timeout_ms", "max_attempts", "queue")
    job = app.get(call(welcome, "enqueue", user_id="x").id)
    assert (job.queue, job.max_attempts, job.max_losses, job.timeout_ms) == ("slow", 9, 9, None)
    with pytest.raises(InvalidPayload, match="schema"):
        call(welcome, "enqueue", user_id=7)
    # one call's own options go over it
    job = app.get(call(welcome.using(max_attempts=2, queue="fast"), "enqueue", user_id="x").id)
    assert (job.queue, job.max_attempts) == ("fast", 2)
    drain(app)  # a worker that starts leaves it as it is
    assert app.get_definition("welcome").queue == "slow"
    reset = call(app, "change_definition", "welcome", reset=["queue", "timeout", "schema"])
    assert (reset.queue, reset.timeout_ms, reset.schema, reset.changed) == (
        "mail",
        30_000,
        SCHEMA,
        ("description", "max_attempts"),
    )


def test_a_payload_is_checked_again_before_it_runs(app: Headway, welcome: Any, ran: list[Any]) -> None:
    job = welcome.enqueue(user_id=7)
    app.change_definition("welcome", schema={"type": "object", "properties": {"user_id": {"maximum": 5}}})
    drain(app)
    assert ran == []
    found = app.get(job.id)
    assert found.status == "dead"
    assert "does not fit the schema at $.user_id" in (found.error or "")


def test_what_came_in_past_the_check_is_checked_before_it_runs(
    app: Headway, elsewhere: Headway, url: str, ran: list[Any], welcome: Any
) -> None:
    from headway.model.ids import new_id
    from headway.model.job import NewJob

    row = NewJob(id=new_id(), kind="welcome", queue="mail", payload='{"user_id":-1}')
    elsewhere.store.run(elsewhere.store.ops.enqueue([row]))
    drain(app)
    assert ran == []
    assert "at $.user_id" in (app.get(row.id).error or "")


def test_an_inactive_kind_is_refused_and_what_is_stored_runs(
    app: Headway, elsewhere: Headway, call: Call, welcome: Any, ran: list[Any]
) -> None:
    welcome.enqueue(user_id=1)
    call(app, "change_definition", "welcome", active=False)
    for enqueue in (
        lambda: call(welcome, "enqueue", user_id=2),
        lambda: call(app, "enqueue", "welcome", {"user_id": 2}),
        lambda: call(app, "enqueue_many", [welcome.build(user_id=2), welcome.build(user_id=3)]),
        lambda: elsewhere.enqueue("welcome", {"user_id": 2}),
        lambda: app.group([welcome.build(user_id=2)]),
        lambda: app.run_now("welcome", {"user_id": 2}),
    ):
        with pytest.raises(NotAllowed, match='kind "welcome" is not active'):
            enqueue()
    drain(app)
    assert ran == [1]
    call(app, "change_definition", "welcome", active=True)
    call(welcome, "enqueue", user_id=4)
    drain(app)
    assert ran == [1, 4]


def test_a_kind_that_no_code_has_can_be_defined(app: Headway, elsewhere: Headway) -> None:
    made = app.change_definition("shell", queue="other", max_attempts=1, schema={"required": ["cmd"]})
    assert (made.origin, made.queue) == ("stored", "other")
    with pytest.raises(InvalidPayload):
        elsewhere.enqueue("shell")
    assert elsewhere.get(elsewhere.enqueue("shell", {"cmd": 1}).id).queue == "other"
    app.delete_definition("shell")
    with pytest.raises(NotFound):
        app.delete_definition("shell")


def test_a_kind_whose_keys_are_made_by_its_code_is_not_enqueued_without_it(app: Headway, elsewhere: Headway) -> None:
    @app.job(train=lambda user: f"u{user}")
    def ordered(user: int) -> None: ...

    drain(app)
    assert app.get_definition("ordered").computed
    with pytest.raises(InvalidJob, match=r"the keys \(train\) .* are made by its code, .* give train=…, or enqueue it"):
        elsewhere.enqueue("ordered", {"user": 1})
    assert elsewhere.get(elsewhere.enqueue("ordered", {"user": 1}, train="u1").id).train == "u1"


KEYED = {
    "train": "t{user}",
    "partition": "p_{user}_{folder}",
    "concurrency": 2,
    "concurrency_key": "c{user}",
    "rate": "5/min",
    "rate_key": "r{user}",
    "unique_key": "k{user}",
}
MADE = {"train": "t7", "partition": "p_7_in", "concurrency_key": "c7", "rate_key": "r7", "unique_key": "k7"}


def test_templates_of_keys_are_rendered_without_the_code(app: Headway, elsewhere: Headway) -> None:
    @app.job(**KEYED)
    def sort(user: int, folder: str | None = "in") -> None: ...

    drain(app)
    job = elsewhere.get(elsewhere.enqueue("sort", {"user": 7}).id)
    assert {name: getattr(job, name) for name in MADE} == MADE
    own = elsewhere.get(elsewhere.enqueue("sort", {"user": 8, "folder": "out"}, train="mine", rate=None).id)
    assert (own.train, own.partition, own.rate_key) == ("mine", "p_8_out", None)
    with pytest.raises(InvalidJob, match=r"the argument folder is None, which makes no key"):
        elsewhere.enqueue("sort", {"user": 9, "folder": None})
    assert len(app.jobs(kind="sort")) == 2


def test_of_templates_and_functions_the_functions_are_asked_for(app: Headway, elsewhere: Headway) -> None:
    @app.job(train="t{user}", partition=lambda user: f"p{user}", unique_key=lambda user: f"k{user}")
    def mixed(user: int) -> None: ...

    drain(app)
    with pytest.raises(InvalidJob, match=r"the keys \(partition, unique_key\) .* give partition=… and unique_key="):
        elsewhere.enqueue("mixed", {"user": 1})
    with pytest.raises(InvalidJob, match=r"the keys \(unique_key\)"):
        elsewhere.enqueue("mixed", {"user": 1}, partition="p")
    job = elsewhere.get(elsewhere.enqueue("mixed", {"user": 1}, partition="p", unique_key=None).id)
    assert (job.train, job.partition, job.unique_key) == ("t1", "p", None)


def test_a_machine_whose_first_step_moves_elsewhere_is_enqueued_by_its_code(app: Headway, elsewhere: Headway) -> None:
    @app.machine
    class Moving(Machine, train="t{user}"):
        class State(msgspec.Struct):
            user: int

        @step(queue="other", partition=lambda user: f"p{user}")
        def start(self, ctx: Any) -> Any:
            return Done()

    drain(app)
    with pytest.raises(InvalidJob, match=r"the keys of .* are made by its code"):
        elsewhere.enqueue("moving", {"user": 1}, train="t1")


def test_an_earlier_version_still_sees_that_only_the_code_makes_the_keys(app: Headway) -> None:
    """What it would do with a template that it cannot render: enqueue a car without its train."""

    @app.job(train="t{user}")
    def car(user: int) -> None: ...

    drain(app)
    assert app.get_definition("car").computed
    assert not app.get_definition("car").needs_code


def test_a_definition_of_an_earlier_version_is_enqueued_by_its_code(app: Headway, elsewhere: Headway) -> None:
    app.store.run(app.store.ops.declare(Declaration(definitions=(NewDefinition(kind="car", computed=True),))))
    with pytest.raises(InvalidJob, match=r"the keys of .* are made by its code"):
        elsewhere.enqueue("car", {"user": 1}, train="t1")


def test_machines_are_defined_too(app: Headway, elsewhere: Headway, ran: list[Any]) -> None:
    @app.machine
    class Checkout(Machine, queue="checkout", max_attempts=4):
        """Takes an order to its end."""

        @step
        def start(self, ctx: Any) -> Any:
            ran.append(ctx.state)
            return Done()

    drain(app)
    definition = app.get_definition("checkout")
    assert (definition.queue, definition.max_attempts, definition.description) == (
        "checkout",
        4,
        "Takes an order to its end.",
    )
    elsewhere.enqueue("checkout", {"order": 7})
    drain(app)
    assert ran == [{"order": 7}]


@pytest.mark.parametrize(
    "mistake",
    [
        {},
        {"schema": {"type": 7}},
        {"schema": "x"},
        {"max_attempts": 0},
        {"timeout": 0},
        {"active": "yes"},
        {"queue": "a b"},
        {"priority": 1},
        {"reset": ["nothing"]},
    ],
)
def test_a_change_that_cannot_be_is_refused(app: Headway, mistake: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        app.change_definition("welcome", **mistake)
    assert app.definitions() == []


def test_definitions_belong_to_all_tenants(app: Headway, welcome: Any) -> None:
    acme = app.tenant("acme")
    assert acme.get_definition("welcome").queue == "mail"
    with pytest.raises(NotAllowed, match="shared by all tenants"):
        acme.change_definition("welcome", active=False)


# templates


def test_a_job_of_a_template_keeps_what_it_was_made_of(app: Headway, call: Call, welcome: Any, ran: list[Any]) -> None:
    template = call(
        app,
        "create_template",
        "greet",
        "welcome",
        {"user_id": 1, "mail": "b@example.org"},
        options={"priority": 3, "delay": 0},
        description="for newcomers",
        actor="ada",
    )
    assert template == call(app, "get_template", "greet")
    assert (template.revision, template.created_by, template.options) == (1, "ada", {"priority": 3, "delay": 0})
    job = app.get(call(app, "run_template", "greet", {"user_id": 5}, max_attempts=2).id)
    assert (job.payload, job.priority, job.max_attempts, job.queue) == (
        {"user_id": 5, "mail": "b@example.org"},
        3,
        2,
        "mail",
    )
    assert (job.template_id, job.template_revision) == (template.id, 1)
    changed = call(app, "change_template", "greet", payload={"user_id": 8}, options=None, new_name="hello")
    assert (changed.revision, changed.name, changed.payload, changed.options) == (2, "hello", {"user_id": 8}, {})
    assert app.get(job.id).payload["mail"] == "b@example.org"
    assert app.get(call(app, "run_template", "hello").id).template_revision == 2
    drain(app)
    assert sorted(ran) == [5, 8]


def test_a_template_is_validated_when_it_is_run(app: Headway, welcome: Any) -> None:
    app.create_template("greet", "welcome")
    with pytest.raises(InvalidJob):
        app.run_template("greet")
    with pytest.raises(InvalidPayload, match="schema"):
        app.run_template("greet", {"user_id": -1})
    assert app.jobs() == []


def test_templates_have_names_of_their_own_in_each_tenant(app: Headway, call: Call, welcome: Any) -> None:
    acme = app.tenant("acme")
    call(app, "create_template", "greet", "welcome", {"user_id": 1})
    call(acme, "create_template", "greet", "welcome", {"user_id": 2})
    with pytest.raises(Duplicate, match="greet"):
        call(acme, "create_template", "greet", "welcome")
    job = acme.get(call(acme, "run_template", "greet").id)
    assert (job.tenant, job.payload) == ("acme", {"user_id": 2})
    assert [each.tenant for each in call(acme, "templates")] == ["acme"]
    assert len(call(app, "templates")) == 2
    assert call(app, "get_template", "greet", tenant="acme").payload == {"user_id": 2}
    call(acme, "delete_template", "greet")
    with pytest.raises(NotFound, match='tenant acme has no template "greet"'):
        call(acme, "run_template", "greet")


def test_a_template_that_is_used_is_not_deleted(app: Headway, call: Call, welcome: Any) -> None:
    call(app, "create_template", "greet", "welcome", {"user_id": 1})
    call(app, "create_schedule", "daily", "@daily", template="greet")
    with pytest.raises(NotAllowed, match="daily"):
        call(app, "delete_template", "greet")
    call(app, "change_schedule", "daily", kind="welcome", payload={"user_id": 1})
    call(app, "delete_template", "greet")


@pytest.mark.parametrize(
    "mistake",
    [{"options": {"tenant": "x"}}, {"options": {"priority": "x"}}, {"payload": [1]}, {"name": "a b"}, {"kind": ""}],
)
def test_a_template_that_cannot_work_is_refused(app: Headway, mistake: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        app.create_template(**{"name": "t", "kind": "welcome", **mistake})
    assert app.templates() == []


def test_secret_fields_are_not_shown(app: Headway, ran: list[Any]) -> None:
    @app.job(schema={"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}})
    def login(pin: str, token: str, user: str = "ada") -> None:
        ran.append((pin, token))

    job = login.enqueue(pin="1234", token="t0ken")
    shown = {"pin": "[redacted]", "token": "[redacted]"}
    assert app.get(job.id).payload == shown
    assert app.jobs()[0].payload == shown
    app.create_template("in", "login", {"pin": "9999", "token": "x"})
    assert app.get_template("in").payload == {"pin": "[redacted]", "token": "[redacted]"}
    app.run_template("in")
    event = app.emit("user.came", {"password": "hunter22", "name": "ada"})
    assert app.get_event(event).payload == {"password": "[redacted]", "name": "ada"}
    drain(app)
    assert ran == [("1234", "t0ken"), ("9999", "x")]


def test_who_has_not_the_code_is_not_shown_them_either(app: Headway, elsewhere: Headway) -> None:
    @app.job(schema={"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}})
    def login(pin: str) -> None: ...

    drain(app)
    assert elsewhere.get(login.enqueue(pin="1234").id).payload == {"pin": "[redacted]"}


def test_a_fault_of_a_secret_field_does_not_quote_it(app: Headway) -> None:
    pin = {"type": "string", "minLength": 6, "writeOnly": True}

    @app.job(schema={"type": "object", "properties": {"pin": pin, "n": {"maximum": 5}}})
    def login(pin: str, n: int = 0) -> None: ...

    with pytest.raises(InvalidPayload, match=r"at \$\.pin: it fails minLength") as refused:
        login.enqueue(pin="98765")
    assert "98765" not in str(refused.value)
    with pytest.raises(InvalidPayload, match="7 is greater"):
        login.enqueue(pin="987654", n=7)
