"""Payload templates: typed look-ups, and whatever a hostile template or event tries, an error and nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import RenderError
from headway.model.render import look_up, placeholders, render

LIMIT = 10_000
EVENT = {
    "folder": {"id": "f-7", "tags": ["new", "big"], "size": 12.5, "deleted": False, "owner": None},
    "count": 3,
    "a-b": {"0": "zero"},
}


def filled(template: Any, event: Any = EVENT, limit: int = LIMIT) -> Any:
    return render(template, {"event": event}, limit=limit)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{event.folder.id}}", "f-7"),
        ("{{ event.count }}", 3),
        ("{{event.folder.size}}", 12.5),
        ("{{event.folder.deleted}}", False),
        ("{{event.folder.owner}}", None),
        ("{{event.folder.tags}}", ["new", "big"]),
        ("{{event.folder.tags.1}}", "big"),
        ("{{event.a-b.0}}", "zero"),
        ("{{event}}", EVENT),
        ("{{event.gone?}}", None),
        ("{{event.gone.deeper?}}", None),
    ],
)
def test_a_place_alone_becomes_the_value_with_its_type(template: str, value: Any) -> None:
    result = filled(template)
    assert result == value
    assert type(result) is type(value)


def test_a_place_within_a_text_becomes_text() -> None:
    template = (
        "id={{event.folder.id}} n={{event.count}} t={{event.folder.tags}} d={{event.folder.deleted}} {{event.x?}}."
    )
    assert filled(template) == 'id=f-7 n=3 t=["new","big"] d=false .'
    assert filled("{{event.count}}{{event.count}}") == "33"


def test_what_is_no_text_stays_as_it_is() -> None:
    template = {"a": 1, "b": [True, None, 2.5, {"c": "{{event.count}}"}], "{{event.count}}": "key"}
    assert filled(template) == {"a": 1, "b": [True, None, 2.5, {"c": 3}], "{{event.count}}": "key"}


def test_two_braces_can_be_written() -> None:
    assert filled(r"\{{event.count}} and {{event.count}}") == "{{event.count}} and 3"
    assert placeholders(r"\{{nothing") == []


def test_values_with_braces_are_not_rendered_again() -> None:
    event = {"a": "{{event.secret}}", "secret": "s3cret", "b": "}}{{", "c": "\\{{"}
    assert filled("{{event.a}}", event) == "{{event.secret}}"
    assert filled("<{{event.a}}{{event.b}}{{event.c}}>", event) == "<{{event.secret}}}}{{\\{{>"


@pytest.mark.parametrize(
    "template",
    [
        "{{event.__class__}}",
        "{{event.__class__.__mro__}}",
        "{{event.folder.__init__.__globals__}}",
        "{{event.folder.id.upper}}",
        "{{event.folder.tags.9}}",
        "{{event.folder.tags.-1}}",
        "{{event.folder.tags.00000000000000000000001}}",
        "{{event.folder.tags.²}}",
        "{{event.count.real}}",
        "{{event.folder.owner.name}}",
        "{{event.folder.items}}",
        "{{other}}",
        "{{" + ".".join(["event", *["a"] * 31]) + "}}",
    ],
)
def test_a_path_that_leads_nowhere_is_an_error_with_the_place(template: str) -> None:
    with pytest.raises(RenderError, match=r"\$\.x\[0\]"):
        filled({"x": [template]})


@pytest.mark.parametrize(
    "template",
    [
        "{{}}",
        "{{ }}",
        "{{event.folder|upper}}",
        "{{event['folder']}}",
        "{{event.folder()}}",
        "{{1+1}}",
        "{{event..folder}}",
        "{{.event}}",
        "{{event.}}",
        "{{event.a b}}",
        "{{{{event}}}}",
        "{{" + "event" + ".a" * 40 + "}}",
        "{{import os}}",
        "{{" + "x" * 100_000 + "é!}}",
    ],
)
def test_what_is_no_path_is_refused_before_it_is_stored(template: str) -> None:
    with pytest.raises(RenderError) as refused:
        placeholders({"deep": [template]})
    assert len(str(refused.value)) < 400
    with pytest.raises(RenderError):
        filled(template)


@pytest.mark.parametrize(
    "template", ["{{event.body}}", {"x": "{{event}}"}, "text {{event.body}}", ["{{event.deep.0}}"]]
)
def test_a_reference_to_a_secret_does_not_come_out_of_a_place(template: Any) -> None:
    event = {"body": {"$secret": "NAME"}, "deep": [{"a": [{"$secret": 7}]}]}
    with pytest.raises(RenderError, match=r'holds a reference to a secret \("\$secret"\)'):
        filled(template, event)


def test_the_name_of_a_secret_is_not_looked_up() -> None:
    template = {"a": {"$secret": "{{event.name}}"}}
    for refuse in (lambda: filled(template, {"name": "NAME"}), lambda: placeholders(template)):
        with pytest.raises(RenderError, match="the name of a secret must be written out"):
            refuse()


def test_a_reference_of_the_template_itself_stays() -> None:
    event = {"name": "$secret", "text": '{"$secret": "NAME"}'}
    template = {"a": {"$secret": "NAME"}, "b": "{{event.name}}", "c": "{{event.text}}"}
    assert filled(template, event) == {"a": {"$secret": "NAME"}, "b": "$secret", "c": event["text"]}
    assert placeholders(template) == ["event.name", "event.text"]


def test_an_open_place_is_refused() -> None:
    for template in ("{{event.a", "a {{ b", "{{event.count}} {{"):
        with pytest.raises(RenderError, match="without"):
            placeholders(template)


def test_what_would_be_too_large_is_refused_before_it_is_built() -> None:
    event = {"big": "x" * 9_000}
    assert len(filled("{{event.big}}", event)) == 9_000
    for template in (
        ["{{event.big}}"] * 1_000_000,
        "{{event.big}}" * 100_000,
        {"a": "{{event.big}}", "b": "{{event}}"},
    ):
        with pytest.raises(RenderError, match="10,000 bytes"):
            filled(template, event)


def test_a_template_that_is_too_deep_is_refused() -> None:
    deep: Any = "{{event.count}}"
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(RenderError, match="nested deeper"):
        filled(deep)
    with pytest.raises(RenderError, match="nested deeper"):
        placeholders(deep)


def test_the_error_says_what_is_there_instead() -> None:
    with pytest.raises(RenderError, match=r"event\.folder has id, tags, size, deleted, owner"):
        filled("{{event.folder.name}}")
    with pytest.raises(RenderError, match=r"event\.count is int"):
        filled("{{event.count.name}}")
    with pytest.raises(RenderError, match="event is NoneType"):
        filled("{{event.count}}", None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values)
def test_anything_gives_json_or_a_kept_error(template: Any, event: Any) -> None:
    with contextlib.suppress(RenderError):
        json.dumps(filled(template, event))


@given(json_values)
def test_a_text_without_places_is_left_alone(value: Any) -> None:
    if "{{" not in json.dumps(value, ensure_ascii=False):
        assert filled(value) == value


@given(st.text(alphabet="{}\\event.a?- \n", max_size=40))
def test_braces_of_all_sorts_never_crash(text: str) -> None:
    with contextlib.suppress(RenderError):
        placeholders(text)
        filled(text, {"a": "{{event.a}}", "event": 1})


def test_a_path_is_looked_up_the_same_way_for_conditions() -> None:
    assert look_up({"event": EVENT}, "event.folder.tags.0") == (True, "new")
    assert look_up({"event": EVENT}, "event.folder.nothing") == (False, None)
