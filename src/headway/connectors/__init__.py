"""Kinds that come with Headway: connector.http.request and the others that a worker's headway.toml enables."""

from headway.connectors.enabled import load
from headway.connectors.kind import ConnectorKind, Resources

__all__ = ["ConnectorKind", "Resources", "load"]
