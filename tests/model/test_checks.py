"""What can be stored of definitions, templates, triggers and fires."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.errors import InvalidJob
from headway.model.checks import (
    check_declaration,
    check_definition_change,
    check_firings,
    check_template,
    check_template_change,
    check_trigger,
    check_trigger_change,
    check_whole_trigger,
)
from headway.model.definition import DefinitionChange, NewDefinition
from headway.model.template import NewTemplate, TemplateChange
from headway.model.trigger import Declaration, Firing, NewFire, NewTrigger, TriggerChange

NOW = datetime(2031, 5, 6, tzinfo=UTC)
LATE = datetime(9000, 1, 2, tzinfo=UTC)
EARLY = datetime(1969, 12, 31, tzinfo=UTC)


def schedule(**values: Any) -> NewTrigger:
    base = {"id": "t", "tenant_id": "acme", "type": "schedule", "name": "nightly", "kind": "mail", "cron": "0 2 * * *"}
    return NewTrigger(**{**base, **values})


def template(**values: Any) -> NewTemplate:
    return NewTemplate(**{"id": "t", "tenant_id": "acme", "name": "nightly", "kind": "mail", **values})


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"every_ms": 999, "cron": None}, "every_ms must be 1000 to 3162240000000"),
        ({"every_ms": 3_162_240_000_001, "cron": None}, "every_ms must be 1000 to 3162240000000"),
        ({"jitter_ms": -1}, "jitter_ms must be 0 to 3162240000000"),
        ({"catch_up": "some"}, "catch_up must be one of none, latest, all"),
        ({"overlap": "some"}, "overlap must be one of allow, skip"),
        ({"type": "other"}, "type must be one of schedule, event"),
        ({"end_at": LATE}, "end_at must be from 1970-01-01 to 9000-01-01"),
        ({"start_at": EARLY}, "start_at must be from 1970-01-01 to 9000-01-01"),
        ({"payload": "[]"}, "the payload must be a JSON object"),
        ({"when": "{"}, "the when cannot be read at $: input data was truncated"),
        ({"kind": None}, "give exactly one of kind, template and, for an event, signal with signal_to"),
        ({"template_id": "t"}, "give exactly one of kind, template and, for an event, signal with signal_to"),
        ({"cron": None}, "give a schedule exactly one of cron and every, and an event trigger an event"),
        ({"type": "event"}, "give a schedule exactly one of cron and every, and an event trigger an event"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused_with_its_name(values, fault):
    with pytest.raises(InvalidJob) as caught:
        check_trigger(schedule(**values))
    assert str(caught.value) == f'trigger "nightly": {fault}; nothing was stored'


def test_what_can_be_passes():
    check_trigger(schedule())
    check_trigger(schedule(every_ms=1000, cron=None, start_at=datetime(1970, 1, 1, tzinfo=UTC)))
    check_trigger(schedule(type="event", event="paid", cron=None))
    check_template(template())
    check_declaration(Declaration(definitions=(NewDefinition(kind="mail", schema="true"),), schedules=(schedule(),)))
    check_trigger_change(TriggerChange(every_ms=None, kind=None))
    check_template_change(TemplateChange())
    check_definition_change("mail", DefinitionChange(timeout_ms=None, schema=None))
    check_firings([Firing(trigger_id="t", revision=1, due_at=NOW, next_fire_at=None)])


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: check_trigger_change(TriggerChange(every_ms=1)), "the trigger: every_ms must be"),
        (lambda: check_trigger_change(TriggerChange(name="n", every_ms=1)), 'trigger "n": every_ms must be'),
        (lambda: check_template(template(options="7")), 'template "nightly": the options must be a JSON object'),
        (lambda: check_template_change(TemplateChange(payload="7")), "the template: the payload must be"),
        (lambda: _declare(NewDefinition(kind="mail", policy="7")), 'definition "mail": the policy must be'),
        (lambda: check_definition_change("mail", DefinitionChange(schema="{")), "the schema cannot be read"),
        (lambda: check_definition_change("mail", DefinitionChange(max_attempts=0)), "max_attempts must be 1 to"),
        (lambda: check_whole_trigger("event", _whole(event=None)), "an event trigger an event"),
    ],
)
def test_a_change_that_cannot_be_is_refused(check, words):
    with pytest.raises(InvalidJob) as caught:
        check()
    assert words in str(caught.value)


def _declare(*definitions: NewDefinition) -> None:
    check_declaration(Declaration(definitions=definitions))


def _whole(**values: Any) -> dict[str, Any]:
    makes = {"kind": "mail", "template_id": None, "signal": None, "signal_to": None}
    return {"name": "n", **makes, "cron": None, "every_ms": None, "event": "e"} | values


@pytest.mark.parametrize("time", [EARLY, LATE])
def test_the_times_of_a_firing_have_a_range(time):
    base = {"trigger_id": "t", "revision": 1, "due_at": NOW}
    for values in (
        {"next_fire_at": time},
        {"next_fire_at": NOW, "fires": (NewFire(id="f", trigger_id="t", nominal_at=time),)},
    ):
        with pytest.raises(InvalidJob, match="from 1970 to 9000"):
            check_firings([Firing(**base, **values)])
