"""Array literals arrive as the lists they stand for."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.errors import InvalidPayload
from headway.store.postgres.engine.arrays import literal

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


@pytest.fixture(scope="module")
def conn(postgres_server: str):
    with psycopg.connect(postgres_server, autocommit=True) as conn:
        yield conn


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.none() | texts | st.sampled_from(["null", "NULL", "", '"', "\\", "{}", ",", '","', "\\\\"])))
def test_a_list_of_texts_arrives_as_it_is(conn, values) -> None:
    row = conn.execute(
        "select coalesce(array_agg(x order by n), '{}') from unnest(%s::text[]) with ordinality u (x, n)",
        [literal(values)],
    )
    assert row.fetchone() == (values,)


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_list_of_integers_arrives_as_it_is(conn, values) -> None:
    assert conn.execute("select %s::bigint[]", [literal(values)]).fetchone() == (values,)


def test_a_nul_is_refused_and_shifts_nothing() -> None:
    for values in (["a", "b\0c"], ["\0"], ["a", None, "\0"]):
        with pytest.raises(InvalidPayload, match="NUL"):
            literal(values)
