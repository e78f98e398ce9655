"""URLs for people: no password is shown, wherever the URL has it."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from headway import Headway, secrets
from headway.cli.root import main
from headway.errors import ConfigError, HeadwayError
from headway.secrets import show_url, url_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/main", "postgresql://db/main"),
        ("postgresql:///main?host=/run/pg", "postgresql:///main?host=/run/pg"),
        ("postgresql://app@db:5432/main", "postgresql://app@db:5432/main"),
        ("postgresql://app:@db/main", "postgresql://app:@db/main"),
        ("postgresql://app:p4ss@db/main", "postgresql://app:…@db/main"),
        ("postgresql://:p4ss@db/main", "postgresql://:…@db/main"),
        ("postgresql://app:p%40s%2Fs@db:5432,db2/main", "postgresql://app:…@db:5432,db2/main"),
        ("postgresql://app:p@ss@db/main", "postgresql://app:…@db/main"),
        ("postgresql://app:p/ss@db/main", "postgresql://app:…@db/main"),
        ("postgresql://app:p?s#s@db/main", "postgresql://app:…@db/main"),
        ("postgresql://app:p?ss@db/main?password=x", "postgresql://app:…@db/main?password=…"),
        ("postgresql://db/main?user=a&password=p4ss&sslmode=x", "postgresql://db/main?user=a&password=…&sslmode=x"),
        ("postgresql://db/main?sslpassword=p4&sslkey=/k", "postgresql://db/main?sslpassword=…&sslkey=/k"),
        ("postgresql://db/main?pass%77ord=p4ss", "postgresql://db/main?pass%77ord=…"),
        ("postgresql://db/main?PASSWORD=p4ss&password=", "postgresql://db/main?PASSWORD=…&password="),
        ("postgresql://db/main?oauth_client_secret=a&scram_client_key=b", None),
        ("postgresql://db/main?user=a@b&application_name=x", "postgresql://db/main?user=a@b&application_name=x"),
        ("postgresql://[::1/main?password=p4ss", "postgresql://[::1/main?password=…"),
        ("host=db user=app password=p4ss", "host=db user=app password=[redacted]"),
        ("host=db password='p4 ss' user=a", "host=db password='[redacted]' user=a"),
        ("app:p4ss@db/main", "app:…@db/main"),
        ("postgresql//app:p4ss@db/main", "postgresql//app:…@db/main"),
        ("sqlite:///a b?.db", "sqlite:///a b?.db"),
        ("headway.db", "headway.db"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str | None) -> None:
    expected = "postgresql://db/main?oauth_client_secret=…&scram_client_key=…" if shown is None else shown
    assert show_url(url) == expected


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql://app:p4ss%2Fword@db/main", {"p4ss%2Fword", "p4ss/word"}),
        ("postgresql://app:p4ss@word@db/main", {"p4ss@word", "p4ss", "word"}),
        ("postgresql://db/main?password=p4%20ss&user=a&sslpassword=x", {"p4%20ss", "p4 ss", "x"}),
        ("postgresql://shop:shop@db/main", set()),
        ("postgresql://app:main@db/main", set()),
        ("postgresql://app@db/main", set()),
    ],
)
def test_the_secrets_of_a_url(url: str, found: set[str]) -> None:
    assert {value for value in url_secrets(url) if value} == found


PASSWORD = "Kx7Qz9mw2rT5"
URLS = (
    f"postgresql://app:{PASSWORD}@127.0.0.1:1/main",
    f"postgresql://127.0.0.1:1/main?user=app&password={PASSWORD}",
    f"postgresql://127.0.0.1:1/main?pass%77ord={PASSWORD[:4]}%37{PASSWORD[5:]}",
    f"postgresql://app:x@{PASSWORD}@127.0.0.1:1/main",
    f"postgresql://app:{PASSWORD}@127.0.0.1:port/main",
    f"postgresql://app:{PASSWORD}%zz@127.0.0.1/main",
    f"postgresql://127.0.0.1/main?pasword={PASSWORD}&password={PASSWORD}",
    f"postgresql://app:{PASSWORD}@[::1/main",
    f"postgresql//app:{PASSWORD}@127.0.0.1/main",
    f"host=127.0.0.1 password={PASSWORD}",
    f"mysql://app:{PASSWORD}@127.0.0.1/main",
    f"sqlite://app:{PASSWORD}@127.0.0.1/main",
    f"sqlite:///file.db?password={PASSWORD}",
    f"app:{PASSWORD}@db://main",
)


@pytest.mark.parametrize("url", URLS)
def test_no_error_shows_the_password_of_the_database(url: str) -> None:
    with pytest.raises(HeadwayError) as refused:
        (Headway(url, database_timeout="2s") if "127.0.0.1:1/" in url else Headway(url)).jobs()
    error: Any = refused.value
    while error is not None:
        # a driver's own error is kept as the cause; its text is not ours, but it must not show it either
        assert PASSWORD not in str(error)
        error = error.__cause__


def test_a_url_that_cannot_be_read_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"the database URL postgresql://app:…@db/main\?nonsense=1 cannot be"):
        Headway("postgresql://app:p4ssw0rd@db/main?nonsense=1").jobs()


def test_the_engines_password_is_hidden_from_the_moment_it_is_known() -> None:
    app = Headway(f"postgresql://app:{PASSWORD}@127.0.0.1:1/main")
    assert app.store.describe() == "postgresql://app:…@127.0.0.1:1/main"
    assert secrets.redact(f"tried {PASSWORD}", secrets.own()) == "tried [redacted]"


@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--json"], ["jobs", "list"], ["migrate", "--dry-run"]])
@pytest.mark.parametrize("url", [URLS[1], URLS[3]])
def test_no_command_shows_the_password_of_the_database(url: str, command: list[str]) -> None:
    answer = CliRunner().invoke(main, ["--url", url, *command])
    assert answer.exit_code != 0
    assert PASSWORD not in answer.output
    assert "127.0.0.1:1/main" in answer.output
