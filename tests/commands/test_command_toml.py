"""The sections of headway.toml that declare commands: what they may say, and how a wrong one is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from headway import config
from headway.commands import CommandKind, load
from headway.commands.argument import Argument, read_argument
from headway.errors import ConfigError, InvalidPayload

Declare = Callable[..., CommandKind]

FULL = """
[commands.backup]
description = "Dump one database"
argv = ["/usr/bin/pg_dump", "--file={target}", "--jobs={jobs}", "--", "{database}"]
queue = "maintenance"
priority = 7
max_attempts = 3
backoff = ["10s", "1h"]
concurrency = 1
unique_key = "{database}"
unique_for = "10m"
unique_scope = ["queued", "running"]
enqueuer_may = { timeout = "1h", queue = ["maintenance", "slow"] }
timeout = "30m"
kill_grace = "20s"
cwd = "/var/backups"
env = ["TZ"]
set_env = { PGHOST = "db1", PGPASSWORD = { "$secret" = "DB_PASSWORD" } }
success_codes = [0, 2]
retry_codes = [1, -9]
stdout_tail = "16KB"
stderr_tail = 1000
max_output = "10MB"
cpu_seconds = 600
memory = "1.5GB"
files = 64
file_size = "1TB"
result = "json"

[commands.backup.params]
database = { pattern = "[a-z_]+", max_length = 63, description = "its name" }
target = { type = "path", under = "/var/backups" }
jobs = { type = "int", min = 1, max = 8, default = 2 }
"""


def test_a_command_is_a_kind_with_its_options_and_a_strict_schema() -> None:
    (kind,) = load(tomllib.loads(FULL)["commands"], "/etc/headway.toml")
    command = kind.command
    assert (kind.name, kind.description, kind.options.queue) == ("backup", "Dump one database", "maintenance")
    assert (kind.options.priority, kind.options.max_attempts, kind.options.timeout_ms) == (7, 3, 1_800_000)
    assert (kind.options.backoff_base_ms, kind.options.backoff_cap_ms, kind.options.concurrency) == (
        10_000,
        3_600_000,
        1,
    )
    job = kind.build(database="main", target="/var/backups/x")
    assert (job.unique_key, job.unique_for_ms, job.unique_scope) == ("main", 600_000, ("queued", "running"))
    assert kind.options.enqueuer_may == {"timeout": 3_600_000, "queue": ["maintenance", "slow"]}
    assert (command.program, command.cwd, command.env) == ("/usr/bin/pg_dump", "/var/backups", ("TZ",))
    assert (command.kill_grace_ms, command.success_codes, command.retry_codes) == (20_000, {0, 2}, {1, -9})
    assert (command.stdout_tail, command.stderr_tail, command.max_output) == (16_384, 1_000, 10 << 20)
    assert command.limits.given() == {"cpu": 600, "memory": 3 << 29, "files": 64, "file_size": 1 << 40}
    assert kind.options.schema is not None
    assert kind.options.schema.source == {
        "type": "object",
        "properties": {
            "database": {
                "type": "string",
                "maxLength": 63,
                "pattern": "^(?:[a-z_]+)$",
                "description": "its name",
            },
            "target": {"type": "string", "maxLength": 4096, "pattern": "^/"},
            "jobs": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        },
        "required": ["database", "target"],
        "additionalProperties": False,
    }
    assert kind.build(database="shop", target="/var/backups/x").payload == (
        '{"database":"shop","target":"/var/backups/x"}'
    )


def test_defaults_are_careful(declare: Declare) -> None:
    (kind,) = load({"x": {"argv": ["/bin/true"]}}, "headway.toml")
    command = kind.command
    assert (kind.options.timeout_ms, command.kill_grace_ms) == (3_600_000, 10_000)
    assert (command.stdout_tail, command.stderr_tail, command.max_output) == (65_536, 65_536, None)
    assert (command.success_codes, command.retry_codes, command.env, command.set_env) == ({0}, None, (), {})
    assert (command.stdin, command.result, command.cwd, command.limits.given()) == ("none", "none", None, {})
    assert not command.timeout_given


@pytest.mark.parametrize(
    ("item", "argument"),
    [
        ("plain", Argument("plain")),
        ("", Argument("")),
        ("{a}", Argument("", "a", "")),
        ("--since={since}Z", Argument("--since=", "since", "Z")),
        ("{{a}}", Argument("{a}")),
        ("{{{a}}}", Argument("{", "a", "}")),
        ("{{print $1}}", Argument("{print $1}")),
    ],
)
def test_an_item_of_argv_is_one_argument(item: str, argument: Argument) -> None:
    assert read_argument(item) == argument


@pytest.mark.parametrize("item", ["{a}{b}", "{", "}", "{}", "{a b}", "{a.b}", "{0}", "{a!r}", "{a:>10}", "{_x}"])
def test_anything_else_in_braces_is_refused(item: str) -> None:
    with pytest.raises(ValueError, match=r"placeholders in|a lone"):
        read_argument(item)


PARAM = {"argv": ["/bin/echo", "{a}"]}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, r"argv is missing: give the program and its arguments"),
        ({"argv": []}, "argv is missing"),
        ({"argv": "/bin/echo hi"}, "argv is '/bin/echo hi', not a list of texts"),
        ({"argv": ["echo"]}, "argv starts with 'echo': name the program by its absolute path"),
        ({"argv": ["/bin/{what}"]}, "argv has a placeholder in the program"),
        ({"argv": ["/bin/echo", "{a}{b}"]}, "argv has 2 placeholders in '{a}{b}': one argument takes one"),
        ({"argv": ["/bin/echo", "a\0"]}, "argv is .* not a list of texts"),
        ({"argv": ["/bin/echo"], "tiemout": "5s"}, "has an unknown key 'tiemout': did you mean 'timeout'?"),
        ({"argv": ["/bin/echo"], "shell": True}, "has an unknown key 'shell': the keys are argv, params,"),
        ({"argv": ["/bin/echo"], "timeout": "soon"}, "timeout='soon' is not a duration"),
        ({"argv": ["/bin/echo"], "queue": "a b"}, "queue='a b' is not a valid name"),
        ({"argv": ["/bin/echo"], "cwd": "here"}, "cwd is 'here', not an absolute path"),
        ({"argv": ["/bin/echo"], "memory": "lots"}, "memory is 'lots', not a size"),
        ({"argv": ["/bin/echo"], "memory": 17}, "memory is 17: give at least 4,194,304 bytes"),
        ({"argv": ["/bin/echo"], "stdout_tail": "2MB"}, "stdout_tail is over the limit of 1,048,576 bytes"),
        ({"argv": ["/bin/echo"], "env": ["A B"]}, "env has 'A B', which is not the name"),
        ({"argv": ["/bin/echo"], "set_env": {"A": 1}}, r"\[commands.x.set_env\] A is 1: give a text"),
        ({"argv": ["/bin/echo"], "set_env": {"A": {"$secret": "B", "c": 1}}}, "A is .*: give a text"),
        ({"argv": ["/bin/echo"], "set_env": {"HEADWAY_JOB_ID": "1"}}, "which the worker sets itself"),
        ({"argv": ["/bin/echo"], "success_codes": [300]}, "success_codes is .*300.*, not a list of exit codes"),
        ({"argv": ["/bin/echo"], "retry_codes": [0]}, "retry_codes and success_codes share a code"),
        ({"argv": ["/bin/echo"], "stdin": "file"}, "stdin is 'file': it is one of none, payload"),
        ({"argv": ["/bin/echo"], "params": {"a": {}}}, r"\[commands.x.params.a\] is never used"),
        (PARAM | {"params": {"a": {"type": "text"}}}, "type is 'text': it is one of string, int,"),
        (PARAM | {"params": {"a": {"patern": "x"}}}, "unknown key 'patern': did you mean 'pattern'?"),
        (PARAM | {"params": {"a": {"pattern": "("}}}, "pattern the schema cannot be used"),
        (PARAM | {"params": {"a": {"type": "enum"}}}, 'choices belongs to type = "enum", and an enum has choices'),
        (PARAM | {"params": {"a": {"type": "int", "pattern": "x"}}}, "pattern is for type = "),
        (PARAM | {"params": {"a": {"min": 1}}}, "min is for type = "),
        (PARAM | {"params": {"a": {"type": "int", "default": "x"}}}, "default does not fit its own param"),
        (PARAM | {"params": {"a": {"required": False}}}, r"required = false leaves \{a\} in argv empty"),
        (PARAM | {"params": {"a": {"type": "json"}}}, 'type = "json" cannot be an argument'),
        (PARAM | {"params": {"a": {"secret": True, "default": "x"}}}, "default is not for a secret"),
        (PARAM | {"params": {"a": {"secret": True, "type": "int"}}}, "secret is for type = "),
        (PARAM | {"params": {"tenant": {}}}, r"tenant is built in"),
        (PARAM | {"params": {"_a": {}}}, "is not a name for a param"),
        ("nothing", "is not a table"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load({"x": keys}, "/etc/headway.toml")
    assert str(caught.value).startswith("/etc/headway.toml: [commands.x")


@pytest.mark.parametrize(
    ("param", "good", "bad"),
    [
        ({}, ["", "a b", "ünï", "x" * 4_096, "a\nb"], [1, None, "x" * 4_097, ["a"]]),
        ({"pattern": "[a-z]+"}, ["abc"], ["", "aB", "abc\n", "abc;x"]),
        ({"min_length": 2, "max_length": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "int"}, [0, 7, 1e3], ["7", 1.5, True]),
        ({"type": "int", "min": 1, "max": 3}, [1, 3], [0, 4]),
        ({"type": "float", "max": 2.5}, [0, 2.5], [2.6, "1"]),
        ({"type": "bool"}, [True, False], [0, "true"]),
        (
            {"type": "uuid"},
            ["c0ffee00-1234-4abc-8def-000000000001"],
            ["c0ffee", "c0ffee00-1234-4abc-8def-00000000000g"],
        ),
        ({"type": "date"}, ["2026-02-28"], ["2026-02-30", "28.2.2026", "2026-02-28T00:00:00Z"]),
        ({"choices": ["a", 2]}, ["a", 2], ["b", "2", 3]),
        ({"type": "path"}, ["/a/b c", "/"], ["a", "../a", "/a/../b", "", "/.."]),
        ({"type": "path", "under": "/srv/x"}, ["/srv/x", "/srv/x/y"], ["/srv/xy", "/srv", "/srv/x/../y", "/srv/./y"]),
        ({"pattern": "-?[0-9]+", "allow_dash": True}, ["-1", "1"], ["--x"]),
    ],
)
def test_a_value_must_fit_its_param(declare: Declare, param: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    kind = declare(argv=["/bin/echo", "{a}"], params={"a": param})
    for value in good:
        kind.decode(kind.build(a=value).payload)
    for value in bad:
        with pytest.raises(InvalidPayload, match=r"^cmd"):
            kind.build(a=value)


def test_fields_that_are_missing_or_unknown_are_refused_at_enqueue_and_at_run(declare: Declare) -> None:
    kind = declare(argv=["/bin/echo", "{a}"])
    for wrong, text in [({}, "{}"), ({"a": "1", "b": "2"}, '{"a":"1","b":"2"}'), ({"_ctx": 1}, '{"_ctx":1}')]:
        with pytest.raises(InvalidPayload):
            kind.build_from(wrong)
        with pytest.raises(InvalidPayload):
            kind.decode(text)


@pytest.mark.parametrize("value", ["-rf", "-", "--help"])
def test_a_value_that_would_be_an_option_is_refused(declare: Declare, value: str) -> None:
    with pytest.raises(InvalidPayload, match=r"cmd: a: its value starts with '-'.*allow_dash = true"):
        declare(argv=["/bin/echo", "{a}"]).build(a=value)
    with pytest.raises(InvalidPayload, match="starts with '-'"):
        declare(argv=["/bin/echo", "{a}"], params={"a": {"type": "int"}}).build(a=-5)
    declare(argv=["/bin/echo", "--x={a}"]).build(a=value)
    declare(argv=["/bin/echo", "{a}"], params={"a": {"allow_dash": True}}).build(a=value)


def test_a_reference_goes_where_a_secret_is_declared_and_nowhere_else(declare: Declare) -> None:
    kind = declare(argv=["/bin/echo", "{a}", "{key}"], params={"key": {"secret": True}})
    reference = {"$secret": "API_KEY"}
    kind.build(a="1", key=reference)
    with pytest.raises(InvalidPayload, match="is not a secret and takes no reference"):
        kind.build(a=reference, key=reference)
    with pytest.raises(InvalidPayload):
        kind.build(a="1", key="in plain words")
    with pytest.raises(InvalidPayload):
        kind.build(a="1", key={"$secret": "API_KEY", "more": 1})


def test_variables_that_look_like_settings_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Those of others are not: a worker's own, Kubernetes' and the user's."""
    env = {"HEADWAY_ULR": "sqlite:///x.db", "HEADWAY_SERVER_PORTS": "1", "HEADWAY_KEY": "k", "HEADWAY_MY_OWN": "1"}
    env |= {"HEADWAY_SERVICE_HOST": "10.0.0.1", "HEADWAY_PORT": "tcp://10.0.0.1:80", "HEADWAY_LEASE": "5s"}
    for _ in range(2):
        assert config.read(env)["lease"] == "5s"
    assert [record.getMessage() for record in caplog.records] == [
        "HEADWAY_ULR is no setting, and is ignored: did you mean HEADWAY_URL?",
        "HEADWAY_SERVER_PORTS is no setting, and is ignored: did you mean HEADWAY_SERVER_PORT?",
    ]


def test_the_file_may_have_the_sections_and_says_where_it_is(tmp_path: Any) -> None:
    path = tmp_path / "my.toml"
    path.write_text(FULL + '\n[secrets."DB_*"]\nkinds = ["restore"]\n')
    env = {"HEADWAY_CONFIG": str(path)}
    values = config.read(env)
    assert [kind.name for kind in load(values["commands"], str(config.path(env)))] == ["backup"]
    assert values["secrets"] == {"DB_*": {"kinds": ["restore"]}}
    path.write_text("[comands.x]\n")
    with pytest.raises(ConfigError, match="unknown setting 'comands': did you mean 'commands'"):
        config.read(env)
