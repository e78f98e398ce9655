"""The verbs of definitions: what is stored about kinds, and what operators change of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from headway.app.base import VerbBase, then
from headway.define.checks import integer, tenants, timeout
from headway.define.checks import name as checked_name
from headway.define.enqueuer_may import bounds
from headway.define.option_types import DefinitionChanges
from headway.define.schema import Schema
from headway.errors import InvalidJob, NotFound
from headway.model.codec import check_text, encode
from headway.model.definition import FIELDS, Definition, DefinitionChange
from headway.store.ops import Op, Steps

_SCHEMA_LIMIT = 262_144
_PUBLIC = {"timeout_ms": "timeout"}
_CHANGES = tuple(DefinitionChanges.__annotations__)


class DefinitionVerbs(VerbBase):
    """Definitions belong to all tenants, unless they name theirs: `app.tenant(name)` sees no others. Every process
    picks up a change within seconds."""

    def definitions(self) -> list[Definition]:
        """Every stored kind: those that workers declared, and those that operators created."""
        return self._run(self._listed_definitions())

    def get_definition(self, kind: str) -> Definition:
        """What is stored about a kind; raises `NotFound`."""
        return self._run(self._definition(kind))

    def known_definition(self, kind: str) -> Definition | None:
        """What is stored about a kind, as this app last read it, some seconds ago; None if it has none."""
        return self._definitions.get(kind)

    def change_definition(
        self,
        kind: str,
        *,
        reset: Sequence[str] = (),
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[DefinitionChanges],
    ) -> Definition:
        """Change description, schema, timeout, max_attempts, queue, enqueuer_may, tenants or active of a kind, for new
        jobs.

        A changed field no longer follows the code, until `reset` names it. `active=False` refuses new jobs of the kind.
        A kind that no worker has declared yet is created. With `if_match` only if its `revision` is one of these;
        raises `ChangedMeanwhile`, `NotFound`. Raises `InvalidJob`.
        """
        changed = self._run(self._change_definition(kind, reset, actor, if_match, changes), conn)
        self._definitions.expire()
        return changed

    def delete_definition(self, kind: str, *, actor: str | None = None, conn: Any = None) -> None:
        """Delete a kind's definition and its changes; a worker that defines the kind writes it again when it starts."""
        self._run(self._delete_definition(kind, actor), conn)
        self._definitions.expire()

    def _listed_definitions(self, kinds: Sequence[str] | None = None) -> Op[list[Definition]]:
        tenant_id = self._visible_tenant
        op = self._store.ops.definitions(kinds)
        return op if tenant_id is None else then(op, lambda found: [each for each in found if each.is_for(tenant_id)])

    def _definition(self, kind: str) -> Op[Definition]:
        return then(
            self._listed_definitions([checked_name(kind, "kind")]),
            lambda found: found[0] if found else _missing(kind),
        )

    def _change_definition(
        self,
        kind: str,
        reset: Sequence[str],
        actor: str | None,
        if_match: Collection[str] | None,
        changes: Mapping[str, Any],
    ) -> Op[Definition]:
        made: dict[str, Any] = {}
        for option, value in changes.items():
            if option not in _CHANGES:
                raise InvalidJob(f"a definition has no {option}: change {', '.join(_CHANGES)}")
            made |= _checked(option, value)
        names = {_PUBLIC.get(name, name): name for name in FIELDS}
        for name in reset:
            if name not in names:
                raise InvalidJob(f"reset={name!r} is not known: use {', '.join(names)}")
        if not made and not reset:
            raise InvalidJob("nothing to change was given")
        change = DefinitionChange(**made, reset=tuple(names[name] for name in reset))
        op = self._whole_store.ops.change_definition(checked_name(kind, "kind"), change, actor=actor)

        def steps() -> Steps[Definition]:
            yield from self._lock_if_matching("definition", kind, if_match, partial(self._definition, kind))
            return (yield from op.steps())

        return self._for_all_tenants("change a definition", Op(steps, writes=True, atomic=True))

    def _delete_definition(self, kind: str, actor: str | None) -> Op[None]:
        op = self._for_all_tenants("delete a definition", self._whole_store.ops.delete_definition(kind, actor=actor))
        return then(op, lambda found: None if found else _missing(kind))


def _checked(option: str, value: Any) -> dict[str, Any]:
    match option:
        case "schema":
            if value is None:
                return {"schema": None}
            return {"schema": encode(Schema(value).source, limit=_SCHEMA_LIMIT, what="schema")}
        case "timeout":
            return timeout(value, option)
        case "max_attempts":
            return {option: integer(value, option, 1, 32_767)}
        case "queue":
            return {option: checked_name(value, option)}
        case "enqueuer_may":
            return {option: encode(bounds(value), limit=_SCHEMA_LIMIT, what=option)}
        case "tenants":
            return {option: tenants(value, option)}
        case "active":
            if not isinstance(value, bool):
                raise InvalidJob(f"active={value!r} must be True or False")
            return {option: value}
    return {"description": check_text(value, "description", limit=500) if value else ""}


def _missing(kind: str) -> Any:
    raise NotFound(f'there is no definition of "{kind}": a worker that has it writes one at its start')
