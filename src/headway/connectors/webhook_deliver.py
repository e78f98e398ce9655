"""connector.webhook.deliver: one event to one endpoint, signed by the Standard Webhooks specification."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from headway.connectors.exchange import Exchanges, Request
from headway.connectors.http_request import headers_for, refused
from headway.connectors.kind import ConnectorKind, Resources
from headway.define.context import Context
from headway.define.enqueuer import Binding
from headway.define.toml_table import Table
from headway.errors import ConfigError, ConnectorFailed, NotAllowed
from headway.logs import get_logger
from headway.model.connector import WEBHOOK, ConnectorChange
from headway.model.connector import Connector as Endpoint
from headway.model.duration import to_ms
from headway.model.http_url import read_url
from headway.model.outcome import Cancel
from headway.webhooks import MASTER, EndpointKeys

log = get_logger("headway.worker")

SCHEDULE_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The specification's waits between tries: 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours."""
_GONE = 410


def wait_after(failures: int) -> float:
    """Seconds until the next try, up to a tenth more, so that many do not come at once."""
    return SCHEDULE_S[min(failures, len(SCHEDULE_S)) - 1] * (1 + random.random() / 10)


class Connector(ConnectorKind):
    connector = "webhook.deliver"
    about = "Deliver an event to a webhook endpoint"
    defaults: ClassVar[Mapping[str, Any]] = {
        "max_attempts": len(SCHEDULE_S) + 1,
        "backoff": wait_after,
        "timeout": "5m30s",
    }
    payload_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["endpoint", "type", "data"],
        "properties": {
            "endpoint": {"type": "string", "format": "uuid"},
            "type": {"type": "string", "minLength": 1, "maxLength": 128},
            "timestamp": {"type": "string", "format": "date-time"},
            "data": {},
        },
    }

    def __init__(self, table: Table, resources: Resources, *, binding: Binding | None = None) -> None:
        super().__init__(table, resources, binding=binding)
        self._exchanges = Exchanges(resources.networks)

    async def perform(self, ctx: Context, fields: dict[str, Any]) -> Any:
        endpoint = await self._endpoint(ctx, fields["endpoint"])
        stamp = int(time.time())
        body = msgspec.json.encode(
            {
                "type": fields["type"],
                "timestamp": fields.get("timestamp") or await self._made_at(ctx.job_id),
                "data": fields["data"],
            }
        )
        own = {
            "Content-Type": "application/json",
            "webhook-id": ctx.job_id,
            "webhook-timestamp": str(stamp),
            "webhook-signature": _signatures(endpoint, ctx.job_id, stamp, body),
            "Headway-Fence": str(ctx.fence),
            "traceparent": ctx.traceparent,
        }
        given = {name: value for name, value in endpoint.headers.items() if name.lower() not in map(str.lower, own)}
        answer = await self._exchanges.send(
            Request(
                method="POST",
                url=read_url(endpoint.url),
                headers=lambda url, foreign: headers_for(ctx, own | given, url, foreign),
                body=body,
                timeout_s=to_ms(endpoint.options.get("timeout", "20s"), "timeout") / 1_000,
                max_response=4_096,
            )
        )
        if 200 <= answer.status < 300:
            return {"status": answer.status, "timings": {"total_ms": answer.total_ms}}
        if answer.status == _GONE:
            await self._disable(endpoint)
            raise ConnectorFailed(
                f'{answer.url.authority} answered 410, it wants no more: endpoint "{endpoint.name}" is disabled now',
                retry=False,
            )
        failed = refused(answer)
        # the specification retries after every other answer: an endpoint may break in any way for a while
        raise ConnectorFailed(str(failed), delay_s=failed.delay_s)

    async def _endpoint(self, ctx: Context, endpoint_id: str) -> Endpoint:
        store = self.resources.store()
        found = await store.arun(
            store.ops.connectors(
                [endpoint_id], tenant_id=ctx.claim.tenant_id, name=None, kind=WEBHOOK, limit=1, after=None
            )
        )
        if not found:
            raise Cancel(f"tenant {ctx.tenant} has no webhook endpoint {endpoint_id} any more")
        endpoint: Endpoint = found[0]
        if not endpoint.enabled:
            why = f": {endpoint.disabled_reason}" if endpoint.disabled_reason else ""
            raise Cancel(f'endpoint "{endpoint.name}" is disabled{why}')
        return endpoint

    async def _made_at(self, job_id: str) -> str:
        """When the job was made: the same at each try. A trigger gives the time of its event instead."""
        store = self.resources.store()
        (job,) = await store.arun(store.ops.get([job_id], tenant_id=None))
        made_at: datetime = job.created_at
        return made_at.isoformat()

    async def _disable(self, endpoint: Endpoint) -> None:
        store = self.resources.store()
        now = (await store.arun(store.ops.now())).replace(microsecond=0).isoformat()
        change = ConnectorChange(
            of_revision=endpoint.revision, enabled=False, disabled_reason=f"it answered 410 Gone at {now}"
        )
        try:
            await store.arun(
                store.ops.change_connector(endpoint.id, change, tenant_id=endpoint.tenant_id, actor=self.name)
            )
        except NotAllowed:
            log.info("the endpoint was changed meanwhile, and stays enabled", endpoint=endpoint.name)
            return
        log.warning("a webhook endpoint answered 410 Gone and is disabled", endpoint=endpoint.name)


def _signatures(endpoint: Endpoint, message_id: str, stamp: int, body: bytes) -> str:
    """Signed with the endpoint's secret, and with the previous one, too, while that is still valid."""
    versions = [endpoint.secret_version]
    if endpoint.old_secret_ends_at is not None and time.time() < endpoint.old_secret_ends_at.timestamp():
        versions.append(endpoint.secret_version - 1)
    schemes = endpoint.options.get("signatures", ["v1"])
    try:
        keys = [EndpointKeys(os.environ.get(MASTER, ""), endpoint.id, version) for version in versions if version > 0]
    except ConfigError as error:
        # another worker may have it, or this one may get it
        raise ConnectorFailed(
            str(error) if os.environ.get(MASTER) else f"{MASTER} is not set for this worker"
        ) from None
    return " ".join(each.signature(scheme, message_id, stamp, body) for each in keys for scheme in schemes)
