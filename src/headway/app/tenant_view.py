"""What `app.tenant(name)` returns: the app's verbs, for one tenant only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headway.app.results import Results
from headway.app.tenants import Tenants
from headway.app.verbs import Verbs
from headway.artifacts import Places
from headway.clock import Clock
from headway.define.definitions import Definitions
from headway.model.job import NewJob
from headway.store.run import Store
from headway.worker import SingleJobWorker

if TYPE_CHECKING:
    from headway.app.headway import Headway
    from headway.telemetry.tracing import Tracing


class TenantView(Verbs):
    """An app's verbs, for one tenant only."""

    def __init__(self, app: Headway, tenant: str, *, walled: bool = False, for_viewers: bool = False) -> None:
        self._app = app
        self._walled = walled
        self._is_for_viewers = for_viewers
        self._registry = app.kinds
        self._enqueue_middleware = app._enqueue_middleware
        self._wake = app._wake
        self._emitted = app._emitted
        self._own_tenant = tenant
        self._is_for_one_tenant = True
        self._bound: tuple[Store, str, Store, Results] | None = None

    # always the app's current ones: it may be configured, or get another clock, after this view was made

    @property
    def _tenants(self) -> Tenants:  # type: ignore[override]
        return self._app._tenants

    @property
    def _visible_tenant(self) -> str:  # type: ignore[override]
        return self._id_of(self._own_tenant)

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        return self._app.clock

    @property
    def payload_limit(self) -> int:  # type: ignore[override]
        return self._app.payload_limit

    @property
    def spill_limit(self) -> int:  # type: ignore[override]
        return self._app.spill_limit

    @property
    def _strict_kinds(self) -> bool | None:  # type: ignore[override]
        return self._app.settings.strict_kinds

    @property
    def _retention_ms(self) -> Mapping[str, int]:  # type: ignore[override]
        return self._app.settings.retention_ms

    @property
    def _tz(self) -> str:  # type: ignore[override]
        return self._app.settings.tz

    @property
    def _tracing(self) -> Tracing | None:  # type: ignore[override]
        return self._app._tracing

    @property
    def _definitions(self) -> Definitions:  # type: ignore[override]
        return self._app._definitions.seen_by(self._visible_tenant)

    @property
    def _places(self) -> Places:  # type: ignore[override]
        return self._app._places

    @property
    def _store(self) -> Store:  # type: ignore[override]
        return self._opened()[2]

    @property
    def _whole_store(self) -> Store:  # type: ignore[override]
        return self._app.store

    @property
    def _results(self) -> Results:  # type: ignore[override]
        return self._opened()[3]

    def _single_job_worker(self, job: NewJob, reservation_id: str) -> SingleJobWorker:
        return self._app._single_job_worker(job, reservation_id)

    def _opened(self) -> tuple[Store, str, Store, Results]:
        store, seen = self._app.store, self._id_of(self._own_tenant)
        if self._bound is None or self._bound[0] is not store or self._bound[1] != seen:
            mine = store.walled_for(seen) if self._walled else store.for_tenant(seen)
            self._bound = (store, seen, mine, Results(mine))
        return self._bound
