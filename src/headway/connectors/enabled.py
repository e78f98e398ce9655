"""The section `[connectors]` of headway.toml: which connectors this worker runs, and what they may reach."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import msgspec

from headway.connectors.kind import ConnectorKind, Resources
from headway.define.enqueuer import Binding
from headway.define.toml_table import Table
from headway.errors import ConfigError

CONNECTORS = {
    "http.request": "headway.connectors.http_request",
    "report.generate": "headway.connectors.report_generate",
    "webhook.deliver": "headway.connectors.webhook_deliver",
}
"""Each connector and its module, which has a class `Connector`; imported only where it is enabled."""
_SHARED = ("allow_networks",)


def load(
    values: Mapping[str, Any], where: str, resources: Resources, *, binding: Binding | None = None
) -> list[ConnectorKind]:
    """The kinds of the connectors that have a section, as in `[connectors.http.request]`; raises `ConfigError`."""
    section = Table(values, where, "connectors")
    resources = msgspec.structs.replace(resources, networks=_networks(section))
    return [_made(name, table, resources, binding) for name, table in _sections(section).items()]


def _sections(section: Table) -> dict[str, Table]:
    """The tables by the names of their connectors: the first half of a name is a table of tables."""
    found: dict[str, Table] = {}
    halves = sorted({name.partition(".")[0] for name in CONNECTORS})
    section.only((*_SHARED, *halves))
    for half in halves:
        if half in section:
            table = section.table(half)
            table.only([name.partition(".")[2] for name in CONNECTORS if name.partition(".")[0] == half])
            for rest in table:
                found[f"{half}.{rest}"] = table.table(rest)
    return found


def _networks(section: Table) -> tuple[IPv4Network | IPv6Network, ...]:
    networks = []
    for text in section.texts("allow_networks"):
        try:
            networks.append(ip_network(text))
        except ValueError as error:
            raise section.fault("allow_networks", f"has {text!r}, which is no network: {error}") from None
    return tuple(networks)


def _made(name: str, table: Table, resources: Resources, binding: Binding | None) -> ConnectorKind:
    try:
        module = import_module(CONNECTORS[name])
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{table.where}: [connectors.{name}] needs {error.name}, which is not installed: pip install "
            "'headway-engine[connectors]'"
        ) from error
    made: ConnectorKind = module.Connector(table, resources, binding=binding)
    return made
