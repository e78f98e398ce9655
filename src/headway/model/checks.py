"""What definitions, templates, connectors, triggers, fires, events and signals must be to be stored.

A single row that cannot be read or calculated with would block all others. The tables refuse it, too; these checks
say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.errors import InvalidPayload
from headway.model import codec, refusals
from headway.model.audit import given
from headway.model.connector import ConnectorChange, NewConnector
from headway.model.definition import DefinitionChange
from headway.model.event import NewEvent
from headway.model.restricted import bounds_flaw
from headway.model.signal import NewSignal
from headway.model.template import NewTemplate, TemplateChange
from headway.model.trigger import Declaration, Firing, NewFire, NewTrigger, TriggerChange
from headway.secrets import refers

LONGEST_MS = 3_162_240_000_000  # 100 years
FIRST_AT = datetime(1970, 1, 1, tzinfo=UTC)
LAST_AT = datetime(
    9000, 1, 1, tzinfo=UTC
)  # arithmetic with any duration ends before the last time that both stores have

_OBJECTS = ("payload", "options", "headers", "when", "enqueuer_may", "policy")
_LISTS = ("events",)
_TIMES = ("start_at", "end_at", "next_fire_at", "old_secret_ends_at")
_LEAST = {
    "every_ms": 1000,
    "catch_up_window_ms": 0,
    "jitter_ms": 0,
    "dedupe_window_ms": 0,
    "timeout_ms": 1,
    "max_attempts": 1,
    "secret_version": 1,
}
_WORDS = {"type": ("schedule", "event"), "catch_up": ("none", "latest", "all"), "overlap": ("allow", "skip")}


def check_definition_change(kind: str, change: DefinitionChange) -> None:
    """Raises `InvalidJob`, as all of these."""
    _check_values("definition", kind, given(change))


def check_template(template: NewTemplate) -> None:
    _check_values("template", template.name, msgspec.structs.asdict(template))


def check_template_change(change: TemplateChange) -> None:
    values = given(change)
    _check_values("template", values.get("name"), values)


def check_connector(connector: NewConnector) -> None:
    _check_values("connector", connector.name, msgspec.structs.asdict(connector))


def check_connector_change(change: ConnectorChange) -> None:
    values = given(change)
    _check_values("connector", values.get("name"), values)


def check_trigger(trigger: NewTrigger) -> None:
    values = msgspec.structs.asdict(trigger)
    _check_values("trigger", trigger.name, values)
    check_whole_trigger(trigger.type, values)


def check_trigger_change(change: TriggerChange) -> None:
    """Checks each value that the change sets; `check_whole_trigger` checks the row that comes of it."""
    values = given(change)
    _check_values("trigger", values.get("name"), values)


def check_whole_trigger(type_: str, values: Mapping[str, Any]) -> None:
    what = _named("trigger", values["name"])
    makes = [name for name in ("kind", "template_id", "signal") if values[name] is not None]
    signals = values["signal"] is not None
    if len(makes) != 1 or signals != (values["signal_to"] is not None) or (signals and type_ != "event"):
        raise refusals.not_valid(what, "give exactly one of kind, template and, for an event, signal with signal_to")
    timed = (values["cron"] is None) != (values["every_ms"] is None)
    if not (timed if type_ == "schedule" else values["event"] is not None):
        raise refusals.not_valid(what, "give a schedule exactly one of cron and every, and an event trigger an event")


def check_owner(what: str, id_: str, tenant_id: str, owner: str) -> None:
    """Checks that what has this id already belongs to the same tenant: then the call is a repeated one."""
    if owner != tenant_id:
        raise refusals.id_taken(what, id_)


def check_revision(noun: str, name: str, expected: int | msgspec.UnsetType, revision: int) -> None:
    """Checks that a row is still as the caller read it, if the caller asks for that; raises `NotAllowed`."""
    if isinstance(expected, int) and expected != revision:
        raise refusals.changed_meanwhile(noun, name, revision=revision, expected=expected)


def check_events(events: Sequence[NewEvent]) -> None:
    """Raises `InvalidPayload` for a reference to a secret: an emitter must not make jobs read secrets."""
    for event in events:
        if event.name.startswith("headway."):
            raise refusals.event_of_the_engine(event.name)
    if any(refers(event.payload) for event in events):
        raise refusals.secret_in_event()


def check_signals(signals: Sequence[NewSignal]) -> None:
    """Raises `InvalidJob` for a name of the engine's, and `InvalidPayload` for a reference to a secret: a sender must
    not make machines read secrets."""
    for signal in signals:
        if signal.name.startswith("$"):
            raise refusals.signal_of_engine(signal.name)
    if any(refers(signal.payload) for signal in signals):
        raise refusals.secret_in_signal()


def check_declaration(declaration: Declaration) -> None:
    for definition in declaration.definitions:
        _check_values("definition", definition.kind, msgspec.structs.asdict(definition))
    for schedule in declaration.schedules:
        check_trigger(schedule)


def check_firings(firings: Iterable[Firing]) -> None:
    for firing in firings:
        check_fires(firing.fires)
        if not _in_range(firing.next_fire_at):
            raise refusals.fire_time_out_of_range()


def check_fires(fires: Iterable[NewFire]) -> None:
    if not all(_in_range(fire.nominal_at) for fire in fires):
        raise refusals.fire_time_out_of_range()


def _check_values(noun: str, name: str | None, values: Mapping[str, Any]) -> None:
    what = _named(noun, name)
    for field, value in values.items():
        if value is None:
            continue
        if field in _OBJECTS:
            _check_object(what, field, value)
        elif field in _LISTS:
            if not isinstance(_read(what, field, value), list):
                raise refusals.not_valid(what, f"the {field} must be a JSON array")
        elif field == "schema":
            _read(what, field, value)
        elif field in _WORDS and value not in _WORDS[field]:
            raise refusals.not_valid(what, f"{field} must be one of {', '.join(_WORDS[field])}")
        elif field in _LEAST and not _LEAST[field] <= value <= LONGEST_MS:
            raise refusals.not_valid(what, f"{field} must be {_LEAST[field]} to {LONGEST_MS}")
        elif field in _TIMES and not _in_range(value):
            raise refusals.not_valid(what, f"{field} must be from 1970-01-01 to 9000-01-01")


def _check_object(what: str, field: str, text: str) -> None:
    value = _read(what, field, text)
    if not isinstance(value, dict):
        raise refusals.not_valid(what, f"the {field} must be a JSON object")
    flaw = bounds_flaw(value) if field == "enqueuer_may" else None
    if flaw is not None:
        raise refusals.not_valid(what, flaw)


def _read(what: str, field: str, text: str) -> Any:
    try:
        return codec.read(text, what=field)
    except InvalidPayload as error:
        raise refusals.not_valid(what, str(error)) from error


def _named(noun: str, name: str | None) -> str:
    return f"the {noun}" if name is None else f'{noun} "{name}"'


def _in_range(moment: datetime | None) -> bool:
    return moment is None or FIRST_AT <= moment <= LAST_AT
