"""Definitions: what the code says of its kinds, and what operators changed of it, as this process last read it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from headway.define.flow_kind import FlowKind
from headway.define.keys import KEYS
from headway.define.kind import Kind, Redefined
from headway.define.machine import MachineKind
from headway.define.options import Options, has_placeholder, job_builder, new_job
from headway.define.registry import AnyKind, Registry
from headway.define.schema import Schema
from headway.errors import InvalidJob, InvalidPayload
from headway.model.codec import decode, encode
from headway.model.definition import Definition, NewDefinition
from headway.model.job import NewJob
from headway.model.journal import FLOW
from headway.model.machine import START, Checkpoint
from headway.model.restricted import OPTION_FIELDS, check_unbounded, restricted
from headway.model.spill import refuse_large

FRESH_S = 5.0
"""How long the definitions that were read are good enough for an enqueue."""
_POLICY = (
    *("priority", "max_losses", "backoff_base_ms", "backoff_cap_ms", "delivery", "on_canceled", "on_dead"),
    *("train", "partition", "concurrency", "concurrency_key"),
    *("rate_count", "rate_period_ms", "rate_burst", "rate_key", "tags"),
    *("unique_key", "unique_by", "unique_scope", "unique_group", "unique_for_ms", "on_conflict", "replace"),
    *("delay_ms", "debounce_ms", "debounce_max_ms"),
    *("retention", "spill"),
)
_LISTS = ("tags", "unique_by", "unique_scope", "replace")
_DEFAULTS = Options()

_KEYED = ("partition", "_key")
_NO_OPTIONS = frozenset({"made_keys", "step_queues", "keeps_payload", "flow", "key_templates", "code_keys"})
"""What a stored policy says beside the kind's options."""

_Builder = Callable[[Mapping[str, Any] | Raw], NewJob]


def _has_value(definition: Definition | None, option: str) -> bool:
    if definition is None:
        return False
    said = {**definition.policy, "queue": definition.queue, "timeout_ms": definition.timeout_ms}
    return any(said.get(field) is not None for field in OPTION_FIELDS[option])


def definition_of(kind: AnyKind) -> NewDefinition:
    """What the code says of a kind."""
    options = kind.options
    policy = {name: value for name in _POLICY if (value := getattr(options, name)) != getattr(_DEFAULTS, name)}
    schema = kind.described()
    start = kind.edition.steps[START] if isinstance(kind, MachineKind) else None
    policy |= _made(kind)
    if options.spill and kind.is_machine:
        policy["keeps_payload"] = True  # only its results spill
    if isinstance(kind, FlowKind):
        policy["flow"] = kind.edition.version
    moves = start is not None and start.moves
    templates = {option: source for option, source in options.made_keys.items() if isinstance(source, str)}
    if "unique_key" in templates:
        policy["unique_key_by"] = templates.pop("unique_key")
    by_code = [option for option, source in options.made_keys.items() if not isinstance(source, str)]
    if (templates or by_code) and not moves:
        policy["key_templates"], policy["code_keys"] = templates, by_code
    return NewDefinition(
        kind=kind.name,
        description=_description(kind),
        schema=None if schema is None else msgspec.json.encode(schema).decode(),
        timeout_ms=options.timeout_ms,
        max_attempts=options.max_attempts,
        queue=options.queue,
        enqueuer_may=msgspec.json.encode(options.enqueuer_may).decode(),
        tenants=options.tenants,
        policy=msgspec.json.encode(policy).decode(),
        # so that earlier versions, which render that of the unique key only, enqueue nothing without its keys
        computed=bool(templates or by_code) or moves,
    )


def _made(kind: AnyKind) -> dict[str, Any]:
    """Keys and queues that its code sets per job, so that `model/restricted.py` allows them."""
    editions = kind.editions.values() if isinstance(kind, MachineKind) else ()
    steps = [step for edition in editions for step in edition.steps.values()]
    keys = [key for key in KEYS if key in kind.options.made_keys or any(key in step.own for step in steps)]
    queues = sorted({step.options.queue for step in steps if "queue" in step.own})
    return ({"made_keys": keys} if keys else {}) | ({"step_queues": queues} if queues else {})


class Definitions:
    """The stored definitions as this process last read them: new jobs follow them."""

    def __init__(
        self, registry: Registry, *, of: Definitions | None = None, tenant_id: str = "", stored: bool = False
    ) -> None:
        self._registry = registry
        self._stored = stored  # a definition counts more than code that is here
        self._of = of  # what a tenant sees of these
        known = {} if of is None else of._known
        self._known: dict[str, Definition] = {kind: each for kind, each in known.items() if each.is_for(tenant_id)}
        self._seen_by: dict[str, Definitions] = {}
        self._as_stored: Definitions | None = None
        self._schemas: dict[str, Schema] = {}
        self._rows: dict[str, tuple[Options, NewJob]] = {}  # what a job of the kind is like, without options of its own
        self._builders: dict[tuple[str, int, int | None], _Builder] = {}  # of jobs without options, as most are
        self._read_at = -FRESH_S
        self.fingerprint: str | None = None  # their number and the sum of their revisions, as `Due.defined` has it

    def seen_by(self, tenant_id: str | None) -> Definitions:
        """The same without those that are not for this tenant; None: all of them."""
        if tenant_id is None or all(each.tenants is None for each in self._known.values()):
            return self
        found = self._seen_by.get(tenant_id)
        if found is None:
            found = self._seen_by[tenant_id] = Definitions(self._registry, of=self, tenant_id=tenant_id)
        return found

    @property
    def as_stored(self) -> Definitions:
        """The same by which a kind is as its definition says, also where its code is here, unless only that can make
        its keys."""
        if self._as_stored is None:
            self._as_stored = Definitions(self._registry, of=self, stored=True)
            self._as_stored._known = self._known
        return self._as_stored

    @property
    def are_stale(self) -> bool:
        """Whether they must be read again before an enqueue."""
        if self._of is not None:
            return self._of.are_stale
        return time.monotonic() - self._read_at >= FRESH_S

    def expire(self) -> None:
        """Read them again before the next enqueue."""
        self._read_at = -FRESH_S
        if self._of is not None:
            self._of.expire()

    def replace(self, found: list[Definition]) -> None:
        """Replace what was known by what was read: all stored definitions."""
        if self._of is not None:
            self._of.replace(found)
            return
        self._seen_by.clear()
        self._as_stored = None
        self._read_at = time.monotonic()
        self.fingerprint = f"{len(found)}/{sum(each.revision for each in found)}"
        self._known = {each.kind: each for each in found}
        self._schemas.clear()
        self._rows.clear()
        self._builders.clear()
        for kind in self._registry:
            kind.redefine(_redefined(self._known.get(kind.name)))

    @property
    def names(self) -> list[str]:
        """The kinds that have a stored definition."""
        return list(self._known)

    def get(self, kind: str) -> Definition | None:
        return self._known.get(kind)

    @property
    def rendered(self) -> list[str]:
        """The kinds whose keys earlier versions cannot make without their code, and this one can."""
        return [kind for kind, each in self._known.items() if each.computed and not each.needs_code]

    def schema_of(self, kind: str) -> dict[str, Any] | None:
        """The JSON Schema of its payloads, from the code or the stored definition."""
        known = self._registry.get(kind)
        if known is not None:
            return None if known.schema is None else known.schema.source
        # also of a kind that the tenant does not see any more: it says what is masked in jobs that are there
        definition = (self._of or self)._known.get(kind)
        return None if definition is None else definition.schema

    def build(
        self,
        kind: str,
        payload: Mapping[str, Any] | Raw,
        options: Mapping[str, Any],
        *,
        now: int,
        limit: int,
        spill_limit: int | None = None,
    ) -> NewJob:
        """A job of a kind by its name: built by its code, or, if that is not here, from its definition. Its payload may
        spill only with a `spill_limit`.

        Raises `InvalidJob`, `InvalidPayload`.
        """
        job = self.builder(kind, options, now=now, limit=limit, spill_limit=spill_limit)(payload)
        refuse_large(job.payload, limit if spill_limit is None else max(limit, spill_limit), f"this {kind}")
        return job

    def builder(
        self, kind: str, options: Mapping[str, Any], *, now: int, limit: int, spill_limit: int | None = None
    ) -> _Builder:
        """Makes jobs of a kind from payloads; the options, which are the same for all, are checked once. `spill_limit`:
        a payload of a kind that lets it spill may have this many bytes."""
        definition = self._known.get(kind)
        known = self._registry.get(kind)
        if known is not None and not (self._stored and definition is not None and not definition.needs_code):
            own = known.using(**options)
            return lambda payload: own.build_from(_values(payload))
        if not options and (made := self._builders.get((kind, limit, spill_limit))) is not None:
            return made
        if definition is None:
            return lambda payload: new_job(kind, _text(payload, limit), options, now=now)
        _check_keys(definition, options)
        schema = self._schema(definition)
        base = self._rows.get(kind)
        if base is None:
            default = _options(definition)
            base = self._rows[kind] = (default, _row(definition, default))
        build_row = job_builder(base, options, now=now, defaults=_defaults(definition))
        spills = spill_limit is not None and spills_payloads(definition)
        most = max(limit, spill_limit or 0) if spills else limit

        def build(payload: Mapping[str, Any] | Raw) -> NewJob:
            text = _text(payload, most)
            if schema is not None:
                schema.check(text, kind)
            return build_row(text)

        if not options:
            self._builders[kind, limit, spill_limit] = build
        return build

    def check_bounds(self, kind: str, options: Mapping[str, Any]) -> None:
        """Raises `NotAllowed` for an option that the kind's definition does not let enqueuers set to this value: what
        people store over HTTP, such as templates, must not allow them more than an enqueue does."""
        definition = self._known.get(kind)
        given = {name: to for name, to in options.items() if name in OPTION_FIELDS}
        for name, to in list(given.items()):
            # None takes away what the definition says
            if to is None or (not name.endswith(_KEYED) and has_placeholder(to)):
                del given[name]
                if to is not None or _has_value(definition, name):
                    check_unbounded(kind, definition, "rate" if name == "burst" else name)
        job = new_job(kind, "{}", given, now=0)
        asked = {field: getattr(job, field) for name in given for field in OPTION_FIELDS[name]}
        restricted(kind, definition, asked)

    def checked(self, kind: str, payload: Mapping[str, Any] | Raw, *, limit: int) -> str:
        """A payload as JSON text, as strict as an enqueue; raises `InvalidJob`, `InvalidPayload`."""
        known = self._registry.get(kind)
        if known is not None:
            return known.build_from(_values(payload)).payload
        text = _text(payload, limit)
        definition = self._known.get(kind)
        if definition is not None:
            self._check(definition, text)
        return text

    def _check(self, definition: Definition, text: str) -> None:
        schema = self._schema(definition)
        if schema is not None:
            schema.check(text, definition.kind)

    def _schema(self, definition: Definition) -> Schema | None:
        if definition.schema is None:
            return None
        if definition.kind not in self._schemas:
            self._schemas[definition.kind] = Schema(definition.schema)
        return self._schemas[definition.kind]


def _check_keys(definition: Definition, options: Mapping[str, Any]) -> None:
    """Raises `InvalidJob` if only the kind's code can make the keys of a job with these options."""
    if not definition.needs_code:
        return
    by_code = definition.policy.get("code_keys")
    missing = None if by_code is None else [option for option in by_code if option not in options]
    if missing == []:
        return
    names = f" ({', '.join(missing)})" if missing else ""
    hint = f"give {' and '.join(f'{option}=…' for option in missing)}, or " if missing else ""
    raise InvalidJob(
        f'the keys{names} of "{definition.kind}" are made by its code, which is not here: {hint}enqueue it where it is '
        "defined (on the command line: add --app module:app)"
    )


def spills_payloads(definition: Definition) -> bool:
    """Whether a payload over the limit of rows may go to an artifact."""
    return bool(definition.policy.get("spill")) and not definition.policy.get("keeps_payload")


def _text(payload: Mapping[str, Any] | Raw, limit: int) -> str:
    """The payload as JSON text: what came as text stays as it is."""
    if not isinstance(payload, Raw):
        return encode(dict(payload), limit=limit)
    if not bytes(payload).lstrip().startswith(b"{"):
        raise InvalidPayload("the payload is not a JSON object: give the job's parameters by name")
    return encode(payload, limit=limit)


def _values(payload: Mapping[str, Any] | Raw) -> dict[str, Any]:
    return dict(decode(bytes(payload), dict[str, Any]) if isinstance(payload, Raw) else payload)


def declarations(kinds: Iterable[AnyKind]) -> tuple[NewDefinition, ...]:
    """What workers write of these kinds, under their earlier names, too: producers may still use those."""
    found = []
    for kind in kinds:
        own = definition_of(kind)
        found += [own, *(msgspec.structs.replace(own, kind=alias) for alias in kind.aliases)]
    return tuple(found)


def _description(kind: AnyKind) -> str:
    given = getattr(kind, "description", None)
    if isinstance(given, str):
        return given
    doc = inspect.getdoc(kind.fn) if isinstance(kind, Kind) else None
    # a class without a docstring inherits that of its base
    if isinstance(kind, MachineKind) and "__doc__" in vars(kind.fn) and vars(kind.fn)["__doc__"] is None:
        doc = None
    return " ".join((doc or "").partition("\n\n")[0].split())[:500]


def _redefined(definition: Definition | None) -> Redefined | None:
    """What an operator changed of a kind, if anything."""
    if definition is None or not definition.changed:
        return None
    changed: dict[str, Any] = {
        name: getattr(definition, name) for name in definition.changed if name in Redefined.__struct_fields__
    }
    if changed.get("schema") is not None:
        changed["schema"] = Schema(changed["schema"])
    return Redefined(**changed) if changed else None


def _row(definition: Definition, options: Options) -> NewJob:
    """A job of the kind, without its code: that it is a flow is to be known before it runs."""
    row = options.row(definition.kind)
    version = definition.policy.get("flow")
    if version is None:
        return row
    return msgspec.structs.replace(row, checkpoint=Checkpoint(version=version, step=FLOW))


def _defaults(definition: Definition) -> dict[str, Any]:
    """Those of its parameters, as its schema has them."""
    properties = definition.schema.get("properties") if isinstance(definition.schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: each["default"] for name, each in properties.items() if isinstance(each, dict) and "default" in each}


def _options(definition: Definition) -> Options:
    policy: dict[str, Any] = {"max_losses": definition.max_attempts}
    policy |= {name: value for name, value in definition.policy.items() if name not in _NO_OPTIONS}
    policy |= {f"{option}_by": text for option, text in definition.policy.get("key_templates", {}).items()}
    policy |= {name: tuple(policy[name]) for name in _LISTS if name in policy}
    return msgspec.structs.replace(
        _DEFAULTS,
        **policy,
        queue=definition.queue,
        timeout_ms=definition.timeout_ms,
        max_attempts=definition.max_attempts,
    )
