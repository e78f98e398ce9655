"""Forms that create and change what is stored: their fields, what the API is sent, its refusals beside the fields, and
what to do when somebody else was quicker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal
from zoneinfo import available_timezones

import msgspec

from headway.api.wire.problems import Refused
from headway.dashboard.table import Form
from headway.errors import ChangedMeanwhile, HeadwayError
from headway.printable import printable, printable_json
from headway.secrets import REDACTED

Entry = Literal["text", "number", "json", "choice", "flag", "words", "long"]
Refusal = (HeadwayError, Refused)
"""The errors with which the API refuses a form."""


@dataclass(frozen=True)
class Field:
    """One field of a form; its name is the API's."""

    name: str
    label: str
    entry: Entry = "text"
    hint: str = ""
    required: bool = False
    choices: tuple[tuple[str, str], ...] = ()  # value and words
    placeholder: str = ""
    value: str = ""  # what a new one starts with
    suggestions: tuple[str, ...] = ()
    folded: bool = False  # among what few people need
    beside: bool = False  # in one row with the field before it: one of them is filled in, or both belong together
    emptied: Any = None  # what the API is sent when a person empties it

    def decode(self, text: str) -> Any:
        """The value that the API is sent; raises `Refused` where the text cannot be one."""
        match self.entry:
            case "flag":
                return text == "true"
            case "number":
                if not re.fullmatch(r"-?\d+", text):
                    raise Refused(422, f"{self.name}={text!r} is not a whole number")
                return int(text)
            case "json":
                try:
                    json.loads(text)
                except ValueError as error:
                    raise Refused(422, f"{self.name} is not JSON: {error}") from None
                if REDACTED in text:
                    raise Refused(
                        422,
                        f"{self.name} holds {REDACTED}, which stands for a secret that is not shown: "
                        'write its value, or a reference like {"$secret": "NAME"}',
                    )
                return msgspec.Raw(text.encode())
            case "words":
                return text.replace(",", " ").split()
        return text


@dataclass(frozen=True)
class Filled:
    """A field with what is in it, and what is wrong with that."""

    field: Field
    value: str
    wrong: str = ""


@dataclass(frozen=True)
class Conflict:
    """A field that somebody else changed since the form was opened."""

    label: str
    was: str
    now: str
    yours: str | None  # None: the person did not change it, so the form has theirs


@dataclass(frozen=True)
class FormState:
    """A form as a page shows it."""

    fields: list[Filled]
    wrong: str = ""  # what is said above all fields
    conflicts: list[Conflict] = field(default_factory=list)
    revision: str = ""  # of what is edited
    was: str = "{}"  # JSON: the texts that the form was opened with

    @property
    def shown(self) -> list[list[Filled]]:
        """The fields that everybody sees, in rows."""
        return _rows([each for each in self.fields if not each.field.folded])

    @property
    def folded(self) -> list[list[Filled]]:
        return _rows([each for each in self.fields if each.field.folded])

    @property
    def has_folded_values(self) -> bool:
        return any(each.field.folded and (each.value != each.field.value or each.wrong) for each in self.fields)

    @property
    def is_told_at_a_field(self) -> bool:
        """Whether what is wrong stands at a field already."""
        return any(each.wrong == self.wrong for each in self.fields)


def new_form(
    fields: Sequence[Field], given: Mapping[str, str] | None = None, error: Exception | None = None
) -> FormState:
    """A form for something new, with what the person filled in before."""
    filled = [Filled(each, _given(each, given)) for each in fields]
    return _with_error(FormState(filled), error)


def edit_form(fields: Sequence[Field], stored: Mapping[str, str], revision: int | str) -> FormState:
    """A form for what is stored."""
    shown = _shown(fields, stored)
    filled = [Filled(each, shown[each.name]) for each in fields]
    return FormState(filled, revision=str(revision), was=json.dumps(shown))


def again(fields: Sequence[Field], given: Form, error: Exception) -> FormState:
    """The form that was refused, with everything that the person filled in."""
    filled = [Filled(each, _given(each, given)) for each in fields]
    state = FormState(filled, revision=given.get("revision", ""), was=given.get("was", "{}"))
    return _with_error(state, error)


def merged(fields: Sequence[Field], given: Form, stored: Mapping[str, str], revision: int | str) -> FormState:
    """The form over what somebody else stored meanwhile: what only they changed is theirs, the rest is the person's.
    Saving it is about the newer version."""
    was, shown = _was(given), _shown(fields, stored)
    filled, conflicts = [], []
    for each in fields:
        mine, theirs, before = _given(each, given), shown[each.name], was.get(each.name, "")
        is_mine = not _same(each, mine, before)
        filled.append(Filled(each, mine if is_mine else theirs))
        if not _same(each, theirs, before) and not (is_mine and _same(each, mine, theirs)):
            conflicts.append(Conflict(each.label, before, theirs, mine if is_mine else None))
    return FormState(filled, conflicts=conflicts, revision=str(revision), was=json.dumps(shown))


def is_stale(error: Exception) -> bool:
    """Whether the API refused because what is stored is another version by now."""
    return isinstance(error, ChangedMeanwhile) or (isinstance(error, Refused) and error.status == 412)


def body_of_new(fields: Sequence[Field], given: Form) -> dict[str, Any]:
    """What the API is sent to create: the fields that are filled in. Raises `Refused`."""
    texts = {each.name: (each, _given(each, given)) for each in fields}
    return {name: each.decode(text) for name, (each, text) in texts.items() if text or each.entry == "flag"}


def body_of_change(fields: Sequence[Field], given: Form) -> dict[str, Any]:
    """What the API is sent to change: the fields that the person changed. Raises `Refused`."""
    was, changes = _was(given), {}
    for each in fields:
        text = _given(each, given)
        if not _same(each, text, was.get(each.name, "")):
            changes[each.name] = each.decode(text) if text or each.entry == "flag" else each.emptied
    return changes


def text_of(value: Any) -> str:
    """A value of the API as a field shows it."""
    if value is None or value in ({}, [], ()):
        return ""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, dict):
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


@cache
def zone_names() -> tuple[str, ...]:
    """Time zones as people choose them: by place."""
    return tuple(sorted(each for each in available_timezones() if "/" in each and not each.startswith("Etc/")))


def duration_text(ms: int | None) -> str:
    """A duration as a person writes it.

    >>> [duration_text(each) for each in (None, 1_500, 90_000, 3_600_000, 90_061_000, 86_400_000)]
    ['', '1.5s', '90s', '1h', '90061s', '1d']
    """
    if not ms:
        return ""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m")):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms / 1_000:g}s" if ms % 1_000 else f"{ms // 1_000}s"


def _shown(fields: Sequence[Field], stored: Mapping[str, str]) -> dict[str, str]:
    """The texts as a page shows them: what controls a terminal or the reading direction as escapes. A field that the
    person leaves alone comes back as it was shown, and is not taken for a change."""
    return {
        each.name: (printable_json if each.entry == "json" else printable)(stored.get(each.name, "")) for each in fields
    }


def _rows(fields: Sequence[Filled]) -> list[list[Filled]]:
    rows: list[list[Filled]] = []
    for each in fields:
        if each.field.beside and rows:
            rows[-1].append(each)
        else:
            rows.append([each])
    return rows


def _given(of: Field, given: Mapping[str, str] | None) -> str:
    if given is None:
        return of.value
    text = given.get(of.name, "")
    return text.replace("\r\n", "\n") if of.entry == "json" else text.strip()


def _was(given: Form) -> dict[str, str]:
    try:
        found = json.loads(given.get("was", "{}"))
    except ValueError:
        raise Refused(400, "the form cannot be read") from None
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _same(of: Field, one: str, other: str) -> bool:
    if of.entry != "json":
        return one.strip() == other.strip()
    return re.sub(r"\s+", " ", one.strip()) == re.sub(r"\s+", " ", other.strip())


def _with_error(state: FormState, error: Exception | None) -> FormState:
    if error is None:
        return state
    said = _said(error)
    faults = {each.pointer.strip("/").partition("/")[0]: each.detail for each in getattr(error, "faults", ())}
    names = [each.field.name for each in state.fields]
    if not faults.keys() & set(names):
        faults = {_named(said, names): said}
    filled = [replace(each, wrong=faults.get(each.field.name, "")) for each in state.fields]
    return replace(state, fields=filled, wrong=said)


def _said(error: Exception) -> str:
    return error.detail if isinstance(error, Refused) else str(error)


def _named(said: str, names: Sequence[str]) -> str:
    """The field that a refusal is about: it says "cron='x' cannot be read", or names it in the sentence."""
    tests: tuple[Callable[[str], str], ...] = (lambda name: rf"\b{name}=", lambda name: rf"\b{name}\b")
    for test in tests:
        found = [(match.start(), name) for name in names if (match := re.search(test(re.escape(name)), said))]
        if found:
            return min(found)[1]
    return ""
