"""The reference says what the code says: every name is there, with its default, and none that does not exist."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import psycopg
import pytest

import headway
from headway import Context, Headway, Machine, Registry, config, errors
from headway.api.access.oidc_settings import OidcSettings, oidc_settings
from headway.api.serving.settings import ServerSettings, server_settings
from headway.app.groups import GroupHandle
from headway.app.job_filters import JobFilters
from headway.app.settings import SettingOptions
from headway.app.triggers import Rehearsal
from headway.app.webhooks import WebhookKeys
from headway.commands import command, param
from headway.commands.argument import BUILT_IN
from headway.define import Flow, Kind
from headway.define.change import NAMES as CHANGES
from headway.define.flow_step import _OPTIONS as STEP_OPTIONS
from headway.define.keys import KEYS
from headway.define.option_types import FlowOptions, KindOptions, StepOptions, UsingOptions
from headway.define.options import Options, kind_options
from headway.define.trigger_jobs import event_names, schedule_names
from headway.model import event as model_event
from headway.model.artifact import Artifact
from headway.model.connector import Connector
from headway.model.definition import Definition
from headway.model.duration import to_ms
from headway.model.fleet import Queue
from headway.model.group import Group
from headway.model.job import Attempt, Enqueued, Job, Outcome
from headway.model.journal_row import JournalRow
from headway.model.limit import Limit
from headway.model.machine import Child, StepExecution
from headway.model.outcome import Outcomes
from headway.model.signal import Sent, Signal
from headway.model.status import ATTEMPT_STATUSES, FINISHED, MOVES, STATUSES
from headway.model.template import Template
from headway.model.train import Hold, Moved, Train
from headway.model.trigger import Fire, Trigger
from headway.worker import EVENTS, Event
from tests.docs import docs_generated, docs_pages
from tests.docs.docs_pages import section, table

REFERENCE = docs_pages.ROOT / "docs" / "reference"
API = REFERENCE / "api.md"
POSTGRES = docs_pages.ROOT / "src" / "headway" / "store" / "postgres"


def _names(page: Path, heading: str) -> list[str]:
    """The names in the first column, without their arguments; a cell may have several."""
    cells = (row[0] for row in table(section(page, heading)))
    codes = (code for cell in cells for code in re.findall(r"`([^`]+)`", cell) or [cell])
    return [code.partition("(")[0] for code in codes]


def _column(page: Path, heading: str, place: int) -> dict[str, str]:
    return {row[0]: row[place] for row in table(section(page, heading))}


def _public(thing: type) -> set[str]:
    annotated = getattr(thing, "__annotations__", {})
    return {name for name in {*dir(thing), *annotated} if not name.startswith("_")}


def _same(documented: Iterable[str], existing: Iterable[str]) -> None:
    documented = list(documented)
    assert len(documented) == len(set(documented)), "documented twice"
    assert set(documented) == set(existing)


def test_every_exported_name_is_documented() -> None:
    rows = table(API.read_text("utf-8").partition("\n## ")[0])
    _same((row[0] for row in rows), headway.__all__)


def test_every_argument_of_an_app_is_documented_with_its_default() -> None:
    text = section(API, "Headway").partition("\n### ")[0]
    documented = {row[0]: row[1] for row in table(text)}
    parameters = {**inspect.signature(Headway).parameters}
    del parameters["settings"]
    defaults = {name: repr(parameter.default) for name, parameter in parameters.items()}
    assert documented == defaults | dict.fromkeys(SettingOptions.__annotations__, "None")


def test_every_verb_of_an_app_is_documented() -> None:
    parts = [
        *("Define and run", "Enqueue", "Look", "Operate", "Machines", "Flows"),
        *("Trains", "Groups", "Limits", "Reservations"),
        *("Definitions", "Templates", "Connectors", "Schedules", "Events and triggers", "API keys", "Tenants", "Stats"),
    ]
    names = [name for part in parts for name in _names(API, part)]
    _same(names, _public(Headway))


def test_filters_and_changes_are_documented() -> None:
    text = API.read_text("utf-8")
    (filters,) = re.findall(r"^Filters: (.*)\.$", text, re.MULTILINE)
    _same(re.findall(r"`(\w+)`", filters), JobFilters.__annotations__)
    (changes,) = re.findall(r"^Changes: (.*)\.$", text, re.MULTILINE)
    _same(re.findall(r"`(\w+)`", changes), CHANGES)


def test_every_part_of_kinds_registries_and_contexts_is_documented() -> None:
    _same((row[0].partition("(")[0] for row in table(section(API, "Kinds").partition("\n### ")[0])), _public(Kind))
    _same(_names(API, "Registry"), _public(Registry))
    _same(_names(API, "Context"), _public(Context))


def test_every_option_of_a_kind_is_documented_with_its_default() -> None:
    documented = _column(API, "Options of a kind", 1)
    _same(documented, KindOptions.__annotations__)
    default = Options()
    for name in ("queue", "max_attempts", "priority", "delivery", "on_canceled", "on_dead", "concurrency", *KEYS):
        assert documented[name] == repr(getattr(default, name))
    assert documented["rate"] == repr(default.rate_count)
    assert documented["burst"] == repr(default.rate_burst)
    assert documented["timeout"] == repr(default.timeout_ms)
    given = kind_options({"backoff": eval(documented["backoff"])})
    assert (given.backoff_base_ms, given.backoff_cap_ms) == (default.backoff_base_ms, default.backoff_cap_ms)
    assert kind_options({"max_attempts": 9}).max_losses == 9, "documented as following max_attempts"


def test_every_option_of_a_job_is_documented_with_its_default() -> None:
    documented = _column(API, "Options of a job", 1)
    both = set(KindOptions.__annotations__) & set(UsingOptions.__annotations__)
    named = re.findall(r"`(\w+)`", section(API, "Options of a job").partition("as above")[0])
    assert both <= set(named)
    _same(documented, set(UsingOptions.__annotations__) - both)
    default = Options()
    for name, told in documented.items():
        if name not in ("tenant", "delay", "unique_scope", "after", "group"):
            assert told == repr(getattr(default, name)), name


@pytest.mark.parametrize(
    "value",
    [
        *(Enqueued, Outcome, Attempt, Signal, Sent, StepExecution, Child, Train, Hold, Moved, Group, Limit, Queue),
        *(Artifact, JournalRow),
        *(GroupHandle, Definition, Template, Connector, WebhookKeys, Trigger, Fire, model_event.Event, Rehearsal),
    ],
)
def test_every_part_of_a_value_is_documented(value: Any) -> None:
    _same(_names(API, value.__name__), _public(value))


def test_every_part_of_a_machine_is_documented() -> None:
    _same(_names(API, "Verbs of a machine"), _public(Machine))
    _same(re.findall(r"`(\w+)`", section(API, "Options of a step")), StepOptions.__annotations__)
    documented = {row[0]: row[1] for row in table(section(API, "Outcomes"))}
    _same(documented, (each.__name__ for each in get_args(Outcomes)))
    for each in get_args(Outcomes):
        told = [part.strip().partition("=") for part in documented[each.__name__].split(",")]
        assert [name for name, _, _ in told] == list(each.__struct_fields__)
        for field, (_, equals, default) in zip(msgspec.structs.fields(each), told, strict=True):
            assert not equals or repr(field.default) == default, field.name


def test_every_part_of_a_flow_is_documented() -> None:
    _same(_names(API, "Flow"), _public(Flow))
    named = set(re.findall(r"`(\w+)`", section(API, "Options of a flow")))
    assert set(FlowOptions.__annotations__) - set(KindOptions.__annotations__) <= named
    _same(re.findall(r"`(\w+)`", section(API, "Options of a flow step")), STEP_OPTIONS)


def test_every_part_of_a_reservation_is_documented() -> None:
    _same(_names(API, "Reserved"), (name for name in dir(Headway().reserve("any")) if not name.startswith("_")))


def test_a_job_has_the_columns_of_its_table() -> None:
    columns = set(_column(REFERENCE / "tables.md", "jobs", 0))
    hidden = {"cancel_reason", "limited", "metered", "fair", "match_all", "signaled"}
    hidden |= {"step_fence", "began", "committed", "replacement_id", "log_said"}
    assert set(Job.__struct_fields__) - {"tenant", "match"} == columns - hidden
    (told,) = re.findall(r"The columns (.*) are not among them", section(API, "Job"))
    assert set(re.findall(r"`(\w+)`", told)) == hidden


def test_every_event_is_documented() -> None:
    rows = [row[0] for row in table(section(API, "Events"))]
    _same((name for name in rows if "." in name), EVENTS)
    _same((name for name in rows if "." not in name), _public(Event))


def test_every_setting_is_documented_with_its_default() -> None:
    page = REFERENCE / "settings.md"
    text = page.read_text("utf-8").partition("\n## ")[0]
    rows = {row[0]: row for row in table(text)}
    _same(rows, config.NAMES)
    default = config.Settings()
    for name, row in rows.items():
        if hasattr(default, f"{name}_ms") and name != "retention":
            assert to_ms(row[1]) == getattr(default, f"{name}_ms"), name
        elif hasattr(default, name) and getattr(default, name) is None:
            assert row[1] == "–", name
        elif hasattr(default, name):
            assert tomllib.loads(f"it = {row[1]}")["it"] == getattr(default, name), name
    arguments = set(inspect.signature(Headway).parameters) - {"clock", "settings"} | {*SettingOptions.__annotations__}
    assert {row[2] for row in rows.values()} - {"–"} == arguments
    kept = _column(page, "retention", 1)
    assert {status: to_ms(age) for status, age in kept.items()} == default.retention_ms


def test_every_setting_of_the_server_is_documented_with_its_default() -> None:
    page = REFERENCE / "settings.md"
    _same(_names(page, "server"), config.SERVER_NAMES)
    default = ServerSettings()
    for name, told in _column(page, "server", 1).items():
        if told.strip("`") != "–":
            if hasattr(default, f"{name}_ms"):
                assert to_ms(told.strip('"')) == getattr(default, f"{name}_ms"), name
                continue
            said = tomllib.loads(f"it = {told}")["it"]
            assert getattr(server_settings({name: said}), name) == getattr(default, name), name


def test_every_setting_of_an_issuer_is_documented_with_its_default() -> None:
    page = REFERENCE / "settings.md"
    documented = _column(page, "oidc", 1)
    _same(documented, config.OIDC_NAMES)
    default = OidcSettings(issuer="-", audience="-")
    for name, told in documented.items():
        if told != "–":
            here = getattr(default, name)
            assert tomllib.loads(f"it = {told}")["it"] == (list(here) if isinstance(here, tuple) else here), name
    how_to = (docs_pages.ROOT / "docs" / "how-to" / "http-oidc.md").read_text("utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", how_to, re.MULTILINE | re.DOTALL)
    assert oidc_settings(tomllib.loads(example)["oidc"]) is not None


def test_every_key_of_a_command_is_documented_with_its_default() -> None:
    page = docs_pages.ROOT / "docs" / "how-to" / "commands.md"
    text = section(page, "All keys")
    (as_in_jobs,) = re.findall(r"^And, as in .*?: (.*?)\. A size", text, re.MULTILINE)
    _same([*_names(page, "All keys"), *re.findall(r"`(\w+)`", as_in_jobs)], command.KEYS)
    defaults = {row[0]: row[1] for row in table(text)}
    assert defaults["timeout"] == f'"{command.DEFAULT_TIMEOUT}"'
    assert defaults["kill_grace"] == f'"{command.DEFAULT_GRACE}"'
    assert defaults["`stdout_tail`, `stderr_tail`"] == f'"{command.DEFAULT_TAIL}"'
    rows = {row[0]: row for row in table(section(page, "Arguments"))}
    _same(_names(page, "Arguments"), param._KEYS)
    assert set(re.findall(r"`(\w+)`", rows["type"][2])) == {*get_args(param.Type)} - {"none"} | {"stdin"}
    built_in = re.findall(r"`\{(\w+)\}`", docs_pages.prose_of(page).partition("are built in")[0].rpartition("\n")[2])
    _same(built_in, BUILT_IN)


def test_every_path_of_a_payload_template_is_documented() -> None:
    now = datetime(2031, 5, 6, tzinfo=UTC)
    trigger: Any = SimpleNamespace(id="", name="", tz="UTC", last_fired_at=None, tenant="", tenant_id="")
    event: Any = SimpleNamespace(id="", name="", payload={}, emitted_at=now, correlation_id=None)
    how_to = docs_pages.ROOT / "docs" / "how-to"
    for page, heading, names in (
        (how_to / "schedules.md", "What a payload may look up", schedule_names(trigger, now, now)),
        (how_to / "events-and-triggers.md", "The payload is a template", event_names(trigger, event)),
    ):
        told = set(re.findall(r"`((?:schedule|event|trigger|meta)\.\w+)`", section(page, heading)))
        assert told == {f"{root}.{name}" for root, inner in names.items() for name in inner}


def test_every_error_is_documented_with_its_base() -> None:
    rows = {row[0]: row[1] for row in table((REFERENCE / "errors.md").read_text("utf-8").partition("\n## ")[0])}
    found = {
        name: each.__bases__[0].__name__
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.HeadwayError)
    }
    assert rows == found


def test_every_exit_code_is_documented() -> None:
    from headway.cli.program import failure

    codes = _column(REFERENCE / "errors.md", "Exit codes of the command line", 0)
    found = {failure.FAILED, failure.WRONG, failure.INTERRUPTED, failure.BROKEN_PIPE, 0}
    _same(codes, map(str, found))


def test_every_status_and_move_is_documented() -> None:
    page = REFERENCE / "statuses.md"
    finished = _column(page, "Jobs", 1)
    _same(finished, STATUSES)
    assert {name for name, told in finished.items() if told == "yes"} == set(FINISHED)
    moves = [(row[0], row[1]) for row in table(section(page, "Moves"))]
    assert len(moves) == len(set(moves))
    assert set(moves) == MOVES
    _same(_column(page, "Attempts", 0), ATTEMPT_STATUSES)


def test_the_command_line_page_is_what_the_program_prints() -> None:
    page = docs_generated.CLI_PAGE.read_text("utf-8")
    again = docs_generated.with_cli_help(page)
    assert page == again, f"run: python -m {docs_generated.__name__}"


def test_every_metric_is_documented() -> None:
    page = docs_generated.METRICS_PAGE.read_text("utf-8")
    assert page == docs_generated.with_metrics(page), f"run: python -m {docs_generated.__name__}"


def test_the_reference_has_every_endpoint() -> None:
    page = docs_generated.HTTP_PAGE.read_text("utf-8")
    assert page == docs_generated.with_http_reference(page), f"run: python -m {docs_generated.__name__}"


def test_every_sql_function_is_documented_with_its_signature(postgres_migrated_url: str) -> None:
    page = docs_generated.SQL_PAGE.read_text("utf-8")
    found = docs_generated.functions_of(postgres_migrated_url)
    _same(re.findall(r"^### headway\.(\w+)$", page, re.MULTILINE), (row[0] for row in found))
    assert page.count("```signature") == len(found)
    again = docs_generated.with_signatures(page, found)
    assert page == again, f"run: python -m {docs_generated.__name__}"


def test_every_sqlstate_is_documented() -> None:
    raised = set(re.findall(r"HW\d{3}", "".join(path.read_text("utf-8") for path in POSTGRES.glob("*/*.sql"))))
    text = (REFERENCE / "sql.md").read_text("utf-8").partition("\n## ")[0]
    rows = {row[0]: row[1] for row in table(text)}
    assert set(rows) == raised
    for code, name in rows.items():
        from headway.store.sqlstate import from_sqlstate

        assert type(from_sqlstate(code, "message", None)).__name__ == name


_TYPES = {"timestamp with time zone": "timestamptz"}


def test_every_column_is_documented_with_its_types(postgres_migrated_url: str, tmp_path: Path) -> None:
    import apsw

    from headway.store.sqlite.store import SqliteStore

    page = REFERENCE / "tables.md"
    documented = {}
    for heading in re.findall(r"^## ([a-z_]+)$", page.read_text("utf-8"), re.MULTILINE):
        for row in table(section(page, heading)):
            documented[heading, row[0]] = (row[1], row[2])
    with psycopg.connect(postgres_migrated_url) as conn:
        rows = conn.execute(
            "select attrelid::regclass::text, attname, format_type(atttypid, null), attnotnull from pg_attribute"
            " join pg_class on pg_class.oid = attrelid"
            " where relnamespace = 'headway'::regnamespace and relkind = 'r' and attnum > 0 and not attisdropped"
        ).fetchall()
    postgres = {
        (row[0].removeprefix("headway."), row[1]): _TYPES.get(row[2], row[2]) + ("!" if row[3] else "") for row in rows
    }

    store = SqliteStore(str(tmp_path / "headway.db"))
    store.migrate()
    store.close()
    file = apsw.Connection(str(tmp_path / "headway.db"))
    sqlite = {}
    for (name,) in file.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"):
        for _, column, kind, required, _, key in file.execute(f"pragma table_info({name})").fetchall():
            sqlite[name, column] = kind.lower() + ("!" if required or key else "")
    file.close()
    existing = {key: (postgres.get(key, "–"), sqlite.get(key, "–")) for key in {**postgres, **sqlite}}
    assert documented == existing


def test_every_index_is_documented(postgres_migrated_url: str, tmp_path: Path) -> None:
    import apsw

    from headway.store.sqlite.store import SqliteStore

    documented = {row[0]: (row[1], row[2]) for row in table(section(REFERENCE / "tables.md", "Indexes"))}
    with psycopg.connect(postgres_migrated_url) as conn:
        rows = conn.execute(
            "select indexname, indexdef like '% UNIQUE %' from pg_indexes"
            " where schemaname = 'headway' and indexname not like '%_pkey'"
        ).fetchall()
    postgres = {name: "yes!" if unique else "yes" for name, unique in rows}

    store = SqliteStore(str(tmp_path / "headway.db"))
    store.migrate()
    store.close()
    file = apsw.Connection(str(tmp_path / "headway.db"))
    made = file.execute("select name, sql from sqlite_master where type = 'index' and sql is not null").fetchall()
    file.close()
    sqlite = {name: "yes!" if "unique index" in sql.lower() else "yes" for name, sql in made}
    assert documented == {name: (postgres.get(name, "–"), sqlite.get(name, "–")) for name in {**postgres, **sqlite}}
