"""The vault: who gets which secret, and whose values are hidden from whom."""

from __future__ import annotations

from typing import Any

import pytest

from headway import secrets
from headway.errors import ConfigError, InvalidPayload, SecretMissing
from headway.secrets import Grant, Owner, Vault

DEFAULT = Owner("00000000-0000-7000-8000-000000000000", "default")
ACME = Owner("00000000-0000-7000-8000-00000000ac3e", "acme")
SMTP = "kx7Qz9mw2rT5-smtp"
API = "vB3Lp8jH6yU1-api"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_PASSPHRASE", SMTP)
    monkeypatch.setenv("API_TOKEN", API)
    monkeypatch.setenv("PLACE", "over-there")


def _vault(section: Any) -> Vault:
    return Vault(secrets.read(section, "headway.toml"))


def _may(vault: Vault, name: str, kind: str, owner: Owner, *, by_code: bool = True) -> bool:
    try:
        vault.keyring(kind, owner, by_code=by_code).get(name)
    except SecretMissing:
        return False
    return True


def test_without_a_declaration_code_of_the_default_tenant_may() -> None:
    vault = _vault({})
    assert _may(vault, "SMTP_PASSPHRASE", "send", DEFAULT)
    assert not _may(vault, "SMTP_PASSPHRASE", "send", DEFAULT, by_code=False)
    assert not _may(vault, "SMTP_PASSPHRASE", "send", ACME)
    with pytest.raises(SecretMissing) as refused:
        vault.keyring("send", ACME, by_code=True).get("SMTP_PASSPHRASE")
    assert str(refused.value) == (
        "the secret SMTP_PASSPHRASE is not given to send of tenant acme here: declare it in the worker's headway.toml, "
        '[secrets.SMTP_PASSPHRASE] with kinds = ["send"] and tenants = ["acme"]'
    )


def test_a_declaration_names_kinds_and_tenants() -> None:
    vault = _vault({"SMTP_PASSPHRASE": {"kinds": ["send", "report.*"], "tenants": ["acme"]}})
    assert _may(vault, "SMTP_PASSPHRASE", "send", ACME)
    assert _may(vault, "SMTP_PASSPHRASE", "report.daily", ACME, by_code=False)
    assert not _may(vault, "SMTP_PASSPHRASE", "other", ACME)
    assert not _may(vault, "SMTP_PASSPHRASE", "send", DEFAULT)
    assert _may(vault, "API_TOKEN", "send", DEFAULT)
    assert not _may(vault, "API_TOKEN", "send", ACME)


def test_what_a_declaration_leaves_out_is_as_without_one() -> None:
    assert _may(_vault({"API_TOKEN": {"tenants": ["*"]}}), "API_TOKEN", "send", ACME)
    assert not _may(_vault({"API_TOKEN": {"tenants": ["*"]}}), "API_TOKEN", "send", ACME, by_code=False)
    assert _may(_vault({"API_TOKEN": {"kinds": ["send"]}}), "API_TOKEN", "send", DEFAULT, by_code=False)
    assert not _may(_vault({"API_TOKEN": {"kinds": ["send"]}}), "API_TOKEN", "send", ACME)


def test_a_tenant_may_be_named_by_its_id_and_nobody_else_is_the_default() -> None:
    assert _may(_vault({"API_TOKEN": {"tenants": [ACME.id]}}), "API_TOKEN", "send", ACME)
    assert not _may(_vault({}), "API_TOKEN", "send", Owner(ACME.id, ACME.id))


def test_the_exact_name_decides_and_then_the_longest_pattern() -> None:
    vault = _vault(
        {
            "*": {"kinds": []},
            "SMTP_*": {"kinds": ["send"]},
            "SMTP_PASS*": {"kinds": ["other"]},
            "API_TOKEN": {"kinds": ["send"]},
        }
    )
    assert not _may(vault, "PLACE", "send", DEFAULT)
    assert _may(vault, "API_TOKEN", "send", DEFAULT)
    assert not _may(vault, "SMTP_PASSPHRASE", "send", DEFAULT)
    assert _may(vault, "SMTP_PASSPHRASE", "other", DEFAULT)


def test_headways_own_variables_are_given_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///x")
    with pytest.raises(InvalidPayload, match="setting of Headway"):
        _vault({"*": {"tenants": ["*"]}}).keyring("send", DEFAULT, by_code=True).get("HEADWAY_URL")


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (7, "secrets = 7 is not a table"),
        ({"allow": ["SMTP_*"]}, r"allow = \['SMTP_\*'\] under \[secrets\] is not a table"),
        ({"A-B": {}}, r"\[secrets.A-B\] is neither the name of a variable"),
        ({"A": {"kind": ["x"]}}, r"'kind' is not known in \[secrets.A\]: it has kinds, tenants, hosts"),
        ({"A": {"kinds": "x"}}, r"\[secrets.A\] kinds = 'x' is not a list"),
        ({"A": {"kinds": ["x y"]}}, r"\[secrets.A\] kinds: 'x y' is not a name"),
        ({"A": {"tenants": ["a*"]}}, r"\[secrets.A\] tenants: 'a\*' is not a name"),
        ({"A": {"tenants": [7]}}, r"\[secrets.A\] tenants: 7 is not a name"),
        ({"A": {"hosts": ["ftp://a.example"]}}, r"\[secrets.A\] hosts: 'ftp://a.example' is not a name"),
    ],
)
def test_a_wrong_declaration_is_refused(section: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        secrets.read(section, "headway.toml")


def test_a_secret_is_sent_in_clear_text_only_where_the_operator_says_http() -> None:
    vault = _vault(
        {"A": {"hosts": ["a.example", "https://b.example", "http://*.c.example", "127.0.0.1", "localhost", "::1"]}}
    )
    clear = ("x.c.example", "127.0.0.1", "localhost", "::1")
    for host in ("a.example", "b.example", *clear):
        assert vault.host_refusal("A", "https", host) is None
        refusal = vault.host_refusal("A", "http", host)
        assert refusal is None if host in clear else f'hosts = ["http://{host}"]' in str(refusal)
    for host in ("c.example", "ca.example", "127.0.0.2", "http"):
        assert "is not for the host" in str(vault.host_refusal("A", "https", host))


def test_a_grant_by_default_is_what_holds_without_one() -> None:
    assert secrets.read({"A": {}}, "headway.toml") == {"A": Grant()}


# whose values are hidden from whom


def _shown(vault: Vault, text: str, owner: Owner) -> str:
    return secrets.redact(text, vault.known(owner))


def test_a_guessed_secret_is_hidden_where_it_is_the_tenants() -> None:
    vault = _vault({"API_TOKEN": {"tenants": ["acme"], "kinds": []}})
    text = f"{SMTP} {API} over-there"
    assert _shown(vault, text, DEFAULT) == f"[redacted] {API} over-there"
    assert _shown(vault, text, ACME) == f"{SMTP} [redacted] over-there"


def test_a_declared_secret_is_one_whatever_its_name() -> None:
    vault = _vault({"PLACE": {"tenants": ["acme"]}})
    assert _shown(vault, "over-there", ACME) == "[redacted]"
    assert _shown(vault, "over-there", DEFAULT) == "over-there"
    assert _shown(_vault({"*": {"tenants": ["*"]}}), "over-there", ACME) == "over-there"


def test_what_one_tenant_resolved_is_hidden_from_no_other() -> None:
    vault = _vault({})
    vault.keyring("send", DEFAULT, by_code=True).get("PLACE")
    assert _shown(vault, "over-there", DEFAULT) == "[redacted]"
    assert _shown(vault, "over-there", ACME) == "over-there"


def test_the_engines_own_password_is_hidden_from_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = _vault({})
    assert _shown(vault, "engine-password-7 and url-password-7", ACME) == "engine-password-7 and url-password-7"
    secrets.add_own("engine-password-7")
    monkeypatch.setenv("HEADWAY_URL", "postgresql://headway:url-password-7@db/headway")
    assert _shown(vault, "engine-password-7 and url-password-7", ACME) == "[redacted] and [redacted]"


@pytest.mark.parametrize("value", ["postgres", "headway", "abc"])
def test_a_password_that_everybody_has_hides_nothing(value: str) -> None:
    secrets.add_own(value)
    assert secrets.redact(f"a {value} b") == f"a {value} b"


def test_a_variable_that_changes_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = _vault({})
    assert _shown(vault, SMTP, DEFAULT) == "[redacted]"
    monkeypatch.setenv("SMTP_PASSPHRASE", "other-value-1")
    assert _shown(vault, f"{SMTP} other-value-1", DEFAULT) == f"{SMTP} [redacted]"


# what is about to be stored


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{{"a":["x {SMTP}"]}}', ("S", ("a", 0))),
        (f'{{"{SMTP}":1}}', ("S", ())),
        ('{"a":[1,90817263]}', ("P", ("a", 1))),
        ('["<90817263>"]', ("P", (0,))),
        ('{"a":1908172634}', None),
        ('["abcd"]', ("T", (0,))),
        ('["abcde", "x abcd"]', None),
        ("[1234]", None),
        ('["1", true]', None),
        (f'["{SMTP[:-1]}"]', None),
        ("null", None),
    ],
)
def test_the_exact_value_is_found(text: str, found: Any) -> None:
    given = {"S": f"{SMTP}\n", "P": "90817263", "T": "abcd", "N": "1234", "O": "1", "E": ""}
    assert secrets.exposed(text, given) == found
