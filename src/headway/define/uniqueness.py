"""Options of unique keys: which job has one, what a second enqueue does to it, and keys made from arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headway.define import keys
from headway.define.checks import name, text
from headway.errors import InvalidJob
from headway.model.duration import to_ms
from headway.model.job import REPLACEABLE
from headway.model.status import STATUSES, UNFINISHED

if TYPE_CHECKING:
    from headway.define.options import Options

_fields = msgspec.json.Decoder(dict[str, Any])
_NO_KEY = {"unique_key": None, "unique_key_by": None, "unique_by": ()}


# the value of each option: gives the `Options` fields that it sets, or raises `InvalidJob` with the fix


def unique_key(value: Any, option: str) -> dict[str, Any]:
    """A literal key."""
    return {**_NO_KEY, **text(value, option)}


def unique_key_of(value: Any, option: str) -> dict[str, Any]:
    """A kind's key: literal, or made from each job's arguments."""
    source = keys.source(value)
    return unique_key(value, option) if source is None else {**_NO_KEY, "unique_key_by": source}


def unique_by(value: Any, option: str) -> dict[str, Any]:
    names = (value,) if isinstance(value, str) else value
    if names is None:
        return dict(_NO_KEY)
    if not isinstance(names, Collection) or isinstance(names, Mapping) or not names:
        raise InvalidJob(f"{option}={value!r} is not a list of arguments: give their names, like ('user',)")
    for each in names:
        if not isinstance(each, str) or not each.isidentifier():
            raise InvalidJob(f"{option} has {each!r}, which is not the name of an argument: give names, like ('user',)")
    return {**_NO_KEY, option: tuple(dict.fromkeys(names))}


def unique_group(value: Any, option: str) -> dict[str, Any]:
    return {option: None if value is None else name(value, option)}


def unique_scope(value: Any, option: str) -> dict[str, Any]:
    if value is None:
        return {"unique_scope": UNFINISHED, "own_scope": False}
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InvalidJob(f"{option}={value!r} is not a set of statuses: give one like {{'queued', 'running'}}")
    if not value:
        raise InvalidJob(f"{option} is empty, so no job would be in it: leave it out for all unfinished statuses")
    for status in value:
        if status not in STATUSES:
            raise InvalidJob(f"{option} has the unknown status {status!r}: use some of {', '.join(STATUSES)}")
    return {"unique_scope": tuple(status for status in STATUSES if status in value), "own_scope": True}


def replace(value: Any, option: str) -> dict[str, Any]:
    names = (value,) if isinstance(value, str) else value
    if names is None:
        return {option: ()}
    if not isinstance(names, Collection) or isinstance(names, Mapping) or not names:
        raise InvalidJob(f"{option}={value!r} is not a list of what to replace: give names, like ('payload',)")
    for each in names:
        if each not in REPLACEABLE:
            raise InvalidJob(f"{option} has {each!r}, which cannot be replaced: use some of {', '.join(REPLACEABLE)}")
    return {option: tuple(each for each in REPLACEABLE if each in names)}


def positive(value: Any, option: str) -> dict[str, Any]:
    """A duration above zero."""
    if value is None:
        return {f"{option}_ms": None}
    ms = to_ms(value, option)
    if ms == 0:
        raise InvalidJob(f"{option}={value!r} is no time at all: give a duration like '5s', or None for none")
    return {f"{option}_ms": ms}


# options together


def spread_debounce(changes: dict[str, Any], given: Mapping[str, Any]) -> None:
    """A debounce is a delay that each enqueue restarts: the job that has the key is replaced."""
    if "debounce_ms" not in changes:
        return
    for option in ("delay", "scheduled_for"):
        if given.get(option) is not None and changes["debounce_ms"] is not None:
            raise InvalidJob(
                f"debounce={given['debounce']!r} and {option}={given[option]!r} exclude each other: give one"
            )
    if changes["debounce_ms"] is None:
        changes.setdefault("debounce_max_ms", None)
        changes.setdefault("delay_ms", None)
        changes.setdefault("on_conflict", "return")
    else:
        changes |= {"delay_ms": changes["debounce_ms"], "scheduled_for": None}
        changes.setdefault("on_conflict", "replace")


def judge(options: Options) -> None:
    """Raises `InvalidJob` for options that contradict each other, or that do nothing."""
    on_conflict = options.on_conflict
    replaces = on_conflict in ("replace", "replace_or_follow")
    if options.own_scope and not has_key(options):
        raise InvalidJob(f"unique_scope={set(options.unique_scope)!r} means nothing without a unique_key: give both")
    if options.unique_for_ms is not None:
        if not has_key(options):
            raise InvalidJob("unique_for means nothing without a unique_key: give both")
        if replaces:
            what = "debounce" if options.debounce_ms is not None else f"on_conflict={on_conflict!r}"
            raise InvalidJob(
                f"unique_for and {what} exclude each other: within the window, the key may belong to a job that has "
                "run and cannot be replaced"
            )
    if options.replace and not replaces:
        raise InvalidJob(f"replace={options.replace!r} means nothing with on_conflict={on_conflict!r}: give 'replace'")
    if options.debounce_ms is not None and not replaces:
        raise InvalidJob(
            f"debounce replaces the job that has the key, and on_conflict={on_conflict!r} does not: leave it out, "
            "or give 'replace'"
        )
    if options.debounce_max_ms is not None:
        if options.debounce_ms is None:
            raise InvalidJob("debounce_max means nothing without debounce: say how long each enqueue waits")
        if options.debounce_max_ms < options.debounce_ms:
            raise InvalidJob("debounce_max is shorter than debounce: the first enqueue would wait longer than allowed")
    if on_conflict == "replace_or_follow" and options.after:
        raise InvalidJob(
            "on_conflict='replace_or_follow' and after exclude each other: a successor waits for the job that has "
            "its key, and for no other"
        )


def has_key(options: Options) -> bool:
    return options.unique_key is not None or options.unique_key_by is not None or bool(options.unique_by)


def check_conflict(options: Options) -> None:
    """Raises `InvalidJob` for an on_conflict without a key to conflict on."""
    if options.on_conflict == "return" or has_key(options):
        return
    if options.on_conflict == "raise":
        if options.idempotency_key is None:
            raise InvalidJob(
                "on_conflict='raise' does nothing without a key: give unique_key= or idempotency_key=, too"
            )
        return
    what = "debounce" if options.debounce_ms is not None else f"on_conflict={options.on_conflict!r}"
    raise InvalidJob(f"{what} does nothing without a key: give unique_key= or unique_by=, too")


# keys made from arguments


def check_names(names: Collection[str], kind: str, known: Collection[str], open_ended: bool) -> None:
    """Raises `InvalidJob` for a unique_by that names no parameter of the kind."""
    for each in names:
        if each not in known and not open_ended:
            raise InvalidJob(
                f"{kind}: unique_by names {each}, which is not a parameter: it takes {', '.join(known) or 'none'}"
            )


def digest(payload: str, names: Collection[str]) -> str:
    """The key of these arguments, as the payload has them; one that was left out counts as null."""
    fields = _fields.decode(payload)
    values = {each: fields.get(each) for each in sorted(names)}
    return hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()[:40]


def keys_of_payload(options: Options, kind: str, defaults: Mapping[str, Any]) -> Callable[[str], dict[str, str | None]]:
    """Makes the keys of jobs whose code is not here: by templates and names of arguments, from their payloads.
    `defaults` are those of its parameters."""
    makers = [
        keys.KeyMaker(option, source, kind=kind, names=(), open_ended=True)
        for option, source in options.made_keys.items()
        if isinstance(source, str)
    ]

    def make(payload: str) -> dict[str, str | None]:
        found: dict[str, str | None] = {"unique_key": digest(payload, options.unique_by)} if options.unique_by else {}
        if makers:
            values = {**defaults, **_fields.decode(payload)}
            found |= {maker.option: maker.make(values) for maker in makers}
        return found

    return make
