"""ConnectorKind: a kind whose code comes with Headway and whose options are a section of headway.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

import msgspec

from headway.define.configured_kind import ConfiguredKind
from headway.define.context import Context
from headway.define.enqueuer import Binding
from headway.define.toml_table import Table
from headway.errors import ConfigError, ConnectorFailed, InvalidJob, InvalidPayload
from headway.store.run import Store

KIND_OPTIONS = (
    *("queue", "priority", "max_attempts", "max_losses", "backoff", "timeout", "concurrency", "rate", "burst"),
    *("enqueuer_may", "tags", "retention", "tenants"),
)
"""The keys of a connector's section that its kind gets unchanged, as in `@app.job(…)`."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What connectors use of their worker."""

    store: Callable[[], Store]  # opened when first used
    result_limit: int  # bytes of a result
    networks: tuple[IPv4Network | IPv6Network, ...] = ()  # private ones that they may reach


class ConnectorKind(ConfiguredKind):
    """A subclass has the name (`http.request` makes the kind `connector.http.request`), the schema of the payload, the
    keys of its section of headway.toml beside KIND_OPTIONS, and `perform`."""

    connector: ClassVar[str]
    about: ClassVar[str]
    payload_schema: ClassVar[Mapping[str, Any]]
    keys: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, table: Table, resources: Resources, *, binding: Binding | None = None) -> None:
        self.resources = resources
        self.description = self.about
        table.only((*KIND_OPTIONS, *self.keys))
        perform = self.perform

        async def connector(_ctx: Context, **fields: Any) -> Any:
            if not self.is_for(_ctx):
                raise ConnectorFailed(self.refusal(_ctx), retry=False)
            return await perform(_ctx, fields)

        name = f"connector.{self.connector}"
        connector.__qualname__ = f"connectors.{self.connector}"
        connector.__module__ = table.where
        given = {key: table.get(key) for key in KIND_OPTIONS if key in table}
        if isinstance(given.get("backoff"), list):
            given["backoff"] = tuple(given["backoff"])
        options = {**self.defaults, **given, "name": name, "schema": self.payload_schema}
        try:
            super().__init__(connector, options, binding=binding)  # type: ignore[arg-type]
        except InvalidJob as error:
            raise ConfigError(f"{table.where}: [connectors.{self.connector}] {error}") from error

    async def perform(self, ctx: Context, fields: dict[str, Any]) -> Any:
        """Run one job. `fields` is its payload, references to secrets unresolved; what is returned is the result.
        Raises `ConnectorFailed`."""
        raise NotImplementedError

    def _check_fields(self, fields: dict[str, Any]) -> None:
        try:
            self.check_fields(fields)
        except InvalidJob as error:
            raise InvalidPayload(f"{self.name}: {error}") from None

    def check_fields(self, fields: dict[str, Any]) -> None:
        """What the schema cannot say; raises `InvalidJob`. Called at enqueue, where the connector is enabled, and
        before each run."""
