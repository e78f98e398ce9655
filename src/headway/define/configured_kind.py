"""ConfiguredKind: a kind that headway.toml defines, not a function: a command's program, or a connector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.define.arguments import ArgumentsOfCall
from headway.define.context import Context
from headway.define.kind import Kind
from headway.errors import InvalidPayload, PayloadMismatch
from headway.model.codec import decode
from headway.model.job import NewJob


class ConfiguredKind(Kind[..., Any]):
    """Its own schema holds beside one that an operator sets: only the file, or the connector's code, decides what
    reaches a program or another host. It is checked at enqueue and before each run. A reference to a secret stays one:
    the kind knows where the secret goes."""

    by_code = False

    def decode(self, payload: str, _secret: Callable[[str], str] | None = None, /) -> ArgumentsOfCall:
        """The fields of a payload, unresolved; raises `InvalidPayload`."""
        try:
            self._check(payload)
        except PayloadMismatch as error:
            raise InvalidPayload(str(error)) from error
        return self._arguments.unpack(payload)

    def is_for(self, ctx: Context) -> bool:
        """Whether headway.toml lets jobs of this tenant run, whatever the stored definition says."""
        tenants = self.options.tenants
        return tenants is None or ctx.tenant in tenants or ctx.claim.tenant_id in tenants

    def refusal(self, ctx: Context) -> str:
        return f"{self.name} was not run: its tenants in headway.toml of this worker do not list {ctx.tenant}"

    def _finish(self, payload: str) -> NewJob:
        self._check(payload)
        return super()._finish(payload)

    def _check(self, payload: str) -> None:
        assert self.options.schema is not None
        self.options.schema.check(payload, self.name)
        self._check_fields(decode(payload))

    def _check_fields(self, fields: dict[str, Any]) -> None:
        """Check what the schema cannot say; raises `InvalidPayload`."""
        raise NotImplementedError
