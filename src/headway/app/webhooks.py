"""The verbs of webhook endpoints: connectors whose events are delivered, signed by a secret of their own."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from headway.app.connectors import ConnectorVerbs
from headway.app.enqueue import EnqueueVerbs
from headway.errors import ConfigError, InvalidJob
from headway.model.connector import WEBHOOK, Connector, ConnectorChange
from headway.model.duration import Duration, to_ms
from headway.model.http_url import read_url
from headway.model.job import Enqueued
from headway.store.ops import Op, Steps
from headway.webhooks import MASTER, EndpointKeys

TEST_EVENT = "headway.webhook.test"


class WebhookKeys(msgspec.Struct, frozen=True):
    """An endpoint with the keys that its receiver verifies by. They are stored nowhere: derived from the master secret,
    and shown only now."""

    endpoint: Connector
    secret: str
    public_key: str


class WebhookVerbs(ConnectorVerbs, EnqueueVerbs):
    """An endpoint is a connector of kind connector.webhook.deliver: list, change and delete it as one."""

    def add_webhook(
        self,
        url: str,
        events: Sequence[str],
        *,
        name: str | None = None,
        headers: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        description: str | None = None,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> WebhookKeys:
        """Deliver these events (`order.paid`, `order.*`, `headway.job.dead`) to this URL, from now on: stores the
        endpoint and a trigger for each. It is named after the URL's host unless you name it.

        `options`: `timeout`, `ordered` (one after the other, by a train), `signatures` (["v1"], or with "v1a"). Raises
        `ConfigError` without the master secret, `Duplicate`, `InvalidJob`.
        """
        master = _master()
        if not events:
            raise InvalidJob("which events? Give some, such as order.* or headway.job.dead")
        made = self.create_connector(
            name or read_url(url).host,
            url,
            kind=WEBHOOK,
            events=events,
            headers=headers,
            options=options,
            description=description,
            tenant=tenant,
            actor=actor,
            conn=conn,
        )
        return _keys(master, made)

    def rotate_webhook(
        self,
        name: str | UUID,
        *,
        overlap: Duration = "1d",
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> WebhookKeys:
        """Give an endpoint a new secret. For the time of `overlap`, deliveries are signed by the old one, too. With
        `if_match` only if its `revision` is one of these: asked twice, it rotates once. Raises `NotFound`,
        `ConfigError` without the master secret, `ChangedMeanwhile`, `NotAllowed` if it was changed meanwhile."""
        master = _master()
        return _keys(master, self._run(self._rotate_webhook(name, overlap, tenant, actor, if_match), conn))

    def test_webhook(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Enqueued:
        """Enqueue a delivery of the event headway.webhook.test to an endpoint; gives its job. Raises `NotFound`."""
        endpoint = self._run(self._endpoint(name, tenant), conn)
        payload = {"endpoint": endpoint.id, "type": TEST_EVENT, "data": {"endpoint": endpoint.name}}
        by = None if actor is None else str(actor)
        return self.enqueue(WEBHOOK, payload, tenant=UUID(endpoint.tenant_id), created_by=by, conn=conn)

    # as ops

    def _endpoint(self, name: str | UUID, tenant: str | UUID | None) -> Op[Connector]:
        def steps() -> Steps[Connector]:
            found = yield from self._connector(name, tenant).steps()
            if found.kind != WEBHOOK:
                raise InvalidJob(f"{found.name} is no webhook endpoint, but a connector for {found.kind}")
            return found

        return Op(steps, writes=False)

    def _rotate_webhook(
        self,
        name: str | UUID,
        overlap: Duration,
        tenant: str | UUID | None,
        actor: str | None,
        if_match: Collection[str] | None,
    ) -> Op[Connector]:
        overlap_ms = to_ms(overlap, "overlap")

        def steps() -> Steps[Connector]:
            found = yield from self._found_to_change("connector", self._endpoint, name, tenant, if_match)
            now = yield from self._store.ops.now().steps()
            change = ConnectorChange(
                of_revision=found.revision,
                secret_version=found.secret_version + 1,
                old_secret_ends_at=now + timedelta(milliseconds=overlap_ms),
            )
            op = self._store.ops.change_connector(found.id, change, tenant_id=found.tenant_id, actor=actor)
            changed = yield from op.steps()
            assert changed is not None
            return changed

        return Op(steps, writes=True, refusable=True, atomic=True)


def keys_of(endpoint: Connector) -> WebhookKeys:
    """The keys of an endpoint that was just made. Raises `ConfigError` without the master secret."""
    return _keys(_master(), endpoint)


def _master() -> str:
    """Raises `ConfigError`, before anything is stored, if no keys could be derived."""
    master = os.environ.get(MASTER)
    if not master:
        raise ConfigError(
            f"{MASTER} is not set: webhook endpoints get their secrets from it. Set it to the same text here and for "
            "the workers, such as openssl rand -base64 32 gives"
        )
    _ = EndpointKeys(master, "", 0).public_key  # raises for one that is too short, or without cryptography
    return master


def _keys(master: str, endpoint: Connector) -> WebhookKeys:
    keys = EndpointKeys(master, endpoint.id, endpoint.secret_version)
    return WebhookKeys(endpoint, keys.secret, keys.public_key)
