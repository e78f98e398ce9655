"""The triggers of a webhook endpoint: one for each event or pattern that it wants, each an ordinary trigger."""

from __future__ import annotations

from typing import Any

from headway.define.triggers import new_trigger
from headway.model.connector import WEBHOOK, Connector
from headway.model.trigger import NewTrigger


def delivery_trigger(endpoint: Connector, event: str, *, limit: int) -> NewTrigger:
    """Turns such an event into a delivery to the endpoint; in order, if the endpoint asks for that."""
    given: dict[str, Any] = {
        "name": trigger_name(endpoint, event),
        "event": event,
        "kind": WEBHOOK,
        "payload": {
            "endpoint": endpoint.id,
            "type": "{{meta.event_name}}",
            "timestamp": "{{meta.emitted_at}}",
            "data": "{{event}}",
        },
        "options": {"train": f"webhook:{endpoint.id}"} if endpoint.options.get("ordered") else {},
        # two events with the same data are two deliveries
        "dedupe_key": "{{meta.event_id}}",
        "label": f"webhook {endpoint.name}: {event}",
    }
    return new_trigger(
        given,
        tenant=endpoint.tenant,
        tenant_id=endpoint.tenant_id,
        limit=limit,
        created_by=endpoint.created_by,
    )


def trigger_name(endpoint: Connector, event: str) -> str:
    """`webhook:shop:order.all` for order.*; two events of an endpoint never get the same, since one would cover the
    other."""
    return f"webhook:{endpoint.name}:{event.replace('*', 'all')}"[:128]
