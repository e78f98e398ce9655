"""Names that look like a secret's, and names that only sound like one."""

from __future__ import annotations

import pytest

from headway.secrets import is_secret_name
from headway.secrets.names import is_secret_variable

SECRET = """
password Password PASSWORD passwd passphrase pwd password2 new_password passwordConfirm db-password user.password
dbpassword password_hash secret client_secret clientSecret CLIENT_SECRET secret_value token access_token accessToken
X-Auth-Token authToken authtoken refresh_token api_key apiKey APIKey apikey X-API-Key api_keys access_key
secretAccessKey AWS_SECRET_ACCESS_KEY private_key privateKeyPem private_key_pem authorization Authorization
credentials credential signing_key jwt SECRET_KEY_BASE
"""
NO_SECRET = """
key keys user name tokens tokens_used max_tokens token_count tokenizer token_type password_length password_changed_at
passwordPolicy secret_name secret_id secretary api_key_id access_key_id key_prefix primary_key partition_key keyboard
monkey bypass compass passenger author authority expires_at private public_key id _ 7
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_a_name_that_is_a_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_variable(name)


@pytest.mark.parametrize("name", [*NO_SECRET.split(), "", "日本"])
def test_a_name_that_is_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", ["STRIPE_KEY", "SENTRY_DSN", "SMTP_PASS", "PGPASSWORD", "DBPASS", "REGISTRY_AUTH"])
def test_variables_are_judged_more_strictly(name: str) -> None:
    assert is_secret_variable(name)


@pytest.mark.parametrize("name", ["KEY_PREFIX", "TOKEN_TTL", "PATH", "HOME", "SSH_AUTH_SOCK", "LANG"])
def test_variables_that_are_no_secrets(name: str) -> None:
    assert not is_secret_variable(name)
