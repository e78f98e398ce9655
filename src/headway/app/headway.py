"""Headway: an app. It ties together a database, the kinds defined for it, and the workers that run them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from uuid import UUID

from headway import commands, connectors, secrets
from headway.app.aio.audit_chain import AsyncAuditChainVerbs
from headway.app.aio.prune import AsyncPruneVerbs
from headway.app.aio.tenant_care import AsyncTenantCareVerbs
from headway.app.backup import BackupVerbs
from headway.app.database_url import DEFAULT_URL, check_url, open_store
from headway.app.results import Results
from headway.app.settings import SettingOptions, check_names, settings_from
from headway.app.tenant_view import TenantView
from headway.app.tenants import Tenants
from headway.app.verbs import Verbs
from headway.artifacts import Places
from headway.clock import Clock, SystemClock
from headway.config import Settings, path, read
from headway.define.definitions import Definitions, declarations
from headway.define.enqueuer import EnqueueMiddleware
from headway.define.flow_step import flow_step
from headway.define.registry import FlowVerb, JobVerb, M, Registry, ScheduleVerb
from headway.errors import InvalidJob
from headway.model.ids import tenant_ref
from headway.model.job import NewJob
from headway.model.served import Ordering, Queues
from headway.model.trigger import Declaration
from headway.store import migrate as migrations
from headway.store.run import Store
from headway.version import __version__
from headway.worker import Hooks, Middleware, SingleJobWorker, Summary, Wake, Worker, run_worker, working
from headway.worker.wake import Hints, folder_of

if TYPE_CHECKING:
    from headway.app.exporter import Exporter
    from headway.telemetry.tracing import Tracing
    from headway.worker.metrics import WorkerMetrics

F = TypeVar("F", bound=Callable[..., Any])


_READ_LATE = (
    *("settings", "payload_limit", "spill_limit", "url"),
    *("_store", "_results", "_definitions", "_tracing", "_places"),
)


class Headway(Verbs, AsyncPruneVerbs, AsyncAuditChainVerbs, AsyncTenantCareVerbs, BackupVerbs):
    """An application's work: define kinds on it, enqueue jobs, run workers, look and operate.

    It reads no file and opens no connection until it is used. Threads can share it, and it survives a fork. Without a
    URL it uses $HEADWAY_URL, the url of headway.toml, or the file ./headway.db. Raises `ConfigError` for an invalid URL
    or setting, and for an empty URL: an unset variable must not choose the database.

    >>> app = Headway("sqlite:///work.db")
    >>> @app.job(queue="mail", max_attempts=3, timeout="30s")
    ... async def welcome(user_id: int) -> str:
    ...     return f"hello {user_id}"
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        tenant: str | UUID | None = None,
        clock: Clock | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        self._url = None if url is None else check_url(url)
        check_names(settings)
        self._given: dict[str, Any] = {**settings}
        settings_from(self._given)
        self._tenant = None if tenant is None else tenant_ref(tenant)
        self.clock = clock or SystemClock()
        self._visible_tenant = None
        self._is_for_one_tenant = False
        self._tenants = Tenants()
        self._registry = Registry()
        self._has_configured = False
        self._wake = Wake(self._hint)
        self._emitted = Wake(self._hint)
        self._hooks = Hooks()
        self._middleware: list[Middleware] = []
        self._enqueue_middleware = []
        self._startup: list[Callable[[], Any]] = []
        self._shutdown: list[Callable[[], Any]] = []
        self._worker_metrics: WorkerMetrics | None = None  # None: nobody wants to know
        self._registry.bind(self)

    # define

    @property
    def job(self) -> JobVerb:
        """Turn a function into a kind: `@app.job`, or with options `@app.job(queue="mail", max_attempts=3)`."""
        return self._registry.job

    def machine(self, machine: M, /) -> M:
        """Turn a machine into a kind: `@app.machine class Checkout(Machine, version=2, queue="checkout")`."""
        return self._registry.machine(machine)

    @property
    def flow(self) -> FlowVerb:
        """Turn an async function into a flow, whose finished operations are kept: `@app.flow`, or with options
        `@app.flow(queue="orders", version=2, since=1)`."""
        return self._registry.flow

    step = flow_step
    """Give a function the options that it has as a step of flows: `@app.step(max_attempts=10)`."""

    @property
    def schedule(self) -> ScheduleVerb:
        """Enqueue a kind by the clock: `@app.schedule("0 2 * * *", tz="America/New_York")`, above `@app.job`."""
        return self._registry.schedule

    def include(self, registry: Registry) -> None:
        """Add the kinds of a registry, including those defined on it later."""
        self._registry.include(registry)

    @property
    def kinds(self) -> Registry:
        """The kinds defined here, by name, including the commands and connectors of headway.toml."""
        self._add_configured()
        return self._registry

    @overload
    def on(self, event: str, callback: F) -> F: ...
    @overload
    def on(self, event: str, callback: None = None) -> Callable[[F], F]: ...
    def on(self, event: str, callback: Any = None) -> Any:
        """Call `callback(event)` whenever a worker in this process raises such an event: `app.on("job.dead", tell)`.

        Without a callback it decorates one: `@app.on("job.dead")`. Raises `ConfigError` for an unknown event.
        """
        if callback is None:
            return partial(self.on, event)
        self._hooks.on(event, callback)
        return callback

    def on_startup(self, fn: F) -> F:
        """Run it when a worker starts, before the first claim."""
        self._startup.append(fn)
        return fn

    def on_shutdown(self, fn: F) -> F:
        """Run it when a worker has stopped."""
        self._shutdown.append(fn)
        return fn

    def middleware(self, fn: Middleware) -> Middleware:
        """Wrap every handler: `async def timing(ctx, call_next): return await call_next()`."""
        self._middleware.append(fn)
        return fn

    def enqueue_middleware(self, fn: EnqueueMiddleware) -> EnqueueMiddleware:
        """Call it with each job that this app is about to enqueue; what it gives is laid over the job.

        `def trace(job): return {"trace_id": current_trace()}`: any options of `using()`, and `payload`; None changes
        nothing. What it raises refuses the enqueue: nothing of it is written. It is a plain function, for blocking and
        async enqueues alike.
        """
        if inspect.iscoroutinefunction(fn):
            raise InvalidJob(
                f"{fn!r} is async, and blocking enqueues cannot wait for it: give enqueue_middleware a plain function"
            )
        self._enqueue_middleware.append(fn)
        return fn

    # for one tenant

    def tenant(self, tenant: str | UUID) -> Verbs:
        """The same verbs, seeing and writing only that tenant."""
        return TenantView(self, tenant_ref(tenant))

    def _walled_tenant(self, tenant_id: str, *, for_viewers: bool = False) -> Verbs:
        """The same for untrusted callers: on PostgreSQL with roles, the database itself shows them only that tenant."""
        return TenantView(self, tenant_id, walled=True, for_viewers=for_viewers)

    # run

    def run(
        self,
        queues: Queues | None = None,
        *,
        concurrency: int | None = None,
        order: Ordering = "turns",
        until_idle: bool = False,
    ) -> Summary:
        """Work until SIGTERM or SIGINT; with `until_idle`, until nothing is left to do.

        Without queues it works on those its kinds use. `{"mail": 5, "default": 20}` sets the slots per queue, and
        `["mail", "report-*"]` names patterns. `order` is "turns", "strict" (as they are listed), or the weight of each.
        """
        return run_worker(self._worker(queues, concurrency, order), until_idle=until_idle)

    async def arun(
        self,
        queues: Queues | None = None,
        *,
        concurrency: int | None = None,
        order: Ordering = "turns",
        until_idle: bool = False,
    ) -> Summary:
        """The same inside a running event loop. Cancel the task to stop at once: its jobs go back to their queues."""
        return await self._worker(queues, concurrency, order).run(until_idle=until_idle)

    def working(
        self, queues: Queues | None = None, *, concurrency: int | None = None, order: Ordering = "turns"
    ) -> AbstractAsyncContextManager[Worker]:
        """A worker beside your own code in a running event loop: `async with app.working(queues="mail"): …`.

        The block begins when the worker claims jobs. At its end the worker claims no more, gives its jobs the grace
        period to finish, and gives back what is left. It sets no signal handlers: the server that runs the loop has its
        own. Raises what a worker raises at its start.
        """
        return working(self._worker(queues, concurrency, order))

    def lifespan(
        self, queues: Queues | None = None, *, concurrency: int | None = None, order: Ordering = "turns"
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """`working` as the lifespan of a web application, which closes this app at the end:
        `FastAPI(lifespan=app.lifespan())`, `Starlette(lifespan=app.lifespan())`, `Litestar(lifespan=[app.lifespan()])`.
        """

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            try:
                async with self.working(queues, concurrency=concurrency, order=order):
                    yield
            finally:
                await self.aclose()

        return lifespan

    def metrics(self) -> bytes:
        """The numbers of the database, and of workers in this process, in Prometheus's text format. The database is
        asked at most every five seconds; if it does not answer, `headway_up` is 0."""
        return self._exporter.render()

    async def ametrics(self) -> bytes:
        """The same, for an event loop."""
        return await asyncio.to_thread(self.metrics)

    def serve_metrics(self, address: str = "127.0.0.1:9100") -> str:
        """Answer Prometheus at this address, in a thread, for as long as the process lives; call it before `run`, so
        that the worker counts. Returns the URL. Raises `ConfigError`."""
        from headway.app.exporter import listen

        return listen(self._exporter, address)

    def configure(self, url: str | None = None, **settings: Unpack[SettingOptions]) -> None:
        """Change what the constructor was given, before the app is used: the command line's flags win over the code.

        Takes the constructor's settings by name; None leaves one as it is. Raises `ConfigError`.
        """
        check_names(settings)
        given = self._given | {name: value for name, value in settings.items() if value is not None}
        settings_from(given)
        self.close()
        self._url, self._given = self._url if url is None else check_url(url), given
        self._tenants = Tenants()
        for name in _READ_LATE:
            self.__dict__.pop(name, None)

    def migrate(self, to: int | None = None) -> list[str]:
        """Bring the database's schema to this library's version, or to another; returns what was done.

        A new SQLite file gets its schema by itself. Safe to run from many places at once. On PostgreSQL the app's
        retention becomes the least that logins of workers keep.
        """
        return migrations.apply(self._store, to, retention_ms=self.settings.retention_ms)

    async def amigrate(self, to: int | None = None) -> list[str]:
        """The same, in a thread."""
        return await asyncio.to_thread(self.migrate, to)

    def close(self) -> None:
        """Close the connections; the app opens them again if it is used again."""
        if "_store" in self.__dict__:
            self._store.close()

    async def aclose(self) -> None:
        """The same, without blocking."""
        if "_store" in self.__dict__:
            await self._store.aclose()

    # its parts, read and opened when first used

    @cached_property
    def _config(self) -> dict[str, Any]:
        return read()

    @cached_property
    def settings(self) -> Settings:
        """How this app and its workers behave."""
        return settings_from(self._config | {name: value for name, value in self._given.items() if value is not None})

    @cached_property
    def url(self) -> str:
        """The database's URL, wherever it was configured."""
        if self._url is not None:
            return str(self._url)
        return check_url(str(self._config.get("url", DEFAULT_URL)), "the URL in HEADWAY_URL or headway.toml")

    @cached_property
    def _store(self) -> Store:  # type: ignore[override]
        return open_store(self.url, self.clock, timeout_s=self.settings.database_timeout_ms / 1_000)

    @property
    def _whole_store(self) -> Store:  # type: ignore[override]
        return self._store

    def _hint(self, queue: str) -> None:
        """Wake a worker of the queue in another process of this machine."""
        if self._hints is not None:
            self._hints.send(queue)

    @cached_property
    def _hints(self) -> Hints | None:
        folder = folder_of(self._store.install_id) if self.settings.hints else None
        return None if folder is None else Hints(folder)

    @cached_property
    def _results(self) -> Results:  # type: ignore[override]
        return Results(self._store)

    @cached_property
    def _definitions(self) -> Definitions:  # type: ignore[override]
        self._add_configured()
        return Definitions(self._registry)

    @cached_property
    def _tracing(self) -> Tracing | None:  # type: ignore[override]
        if not self.settings.otel:
            return None
        from headway.telemetry.tracing import Tracing

        return Tracing()

    @cached_property
    def _exporter(self) -> Exporter:
        from headway.app.exporter import Exporter
        from headway.worker.metrics import WorkerMetrics

        self._worker_metrics = WorkerMetrics()
        return Exporter(self, self._worker_metrics)

    @cached_property
    def _is_observed(self) -> bool:
        """Whether OpenTelemetry collects this app's metrics, which is so from the first use on."""
        if self.settings.otel:
            exporter = self._exporter
            from headway.app.otel_metrics import observe

            assert self._worker_metrics is not None
            observe(exporter, self._worker_metrics)
        return self.settings.otel

    @cached_property
    def _places(self) -> Places:  # type: ignore[override]
        return Places(self.settings.artifacts, self._store.artifacts_beside)

    @cached_property
    def _vault(self) -> secrets.Vault:
        """The secrets that this app's workers pass to jobs."""
        return secrets.Vault(secrets.read(self._config.get("secrets", {}), str(path())))

    def _add_configured(self) -> None:
        """Turn the commands and connectors of headway.toml into kinds; once, when the app is first used."""
        if not self._has_configured:
            self._has_configured = True
            for kind in commands.load(self._config.get("commands", {}), str(path()), binding=self._registry.binding):
                self._registry.add(kind)
            resources = connectors.Resources(store=lambda: self._store, result_limit=self.settings.result_limit)
            section = self._config.get("connectors", {})
            for connector in connectors.load(section, str(path()), resources, binding=self._registry.binding):
                self._registry.add(connector)

    @property
    def store(self) -> Store:
        """The database, for tools that need more than the app's verbs."""
        return self._store

    @cached_property
    def payload_limit(self) -> int:  # type: ignore[override]
        return self.settings.payload_limit

    @cached_property
    def spill_limit(self) -> int:  # type: ignore[override]
        return self.settings.spill_limit

    @property
    def _strict_kinds(self) -> bool | None:  # type: ignore[override]
        return self.settings.strict_kinds

    @property
    def _retention_ms(self) -> Mapping[str, int]:  # type: ignore[override]
        return self.settings.retention_ms

    @property
    def _tz(self) -> str:  # type: ignore[override]
        return self.settings.tz

    @property
    def _own_tenant(self) -> str:  # type: ignore[override]
        return self._tenant or tenant_ref(self._config.get("tenant") or "default")

    def _worker(self, queues: Queues | None, concurrency: int | None, order: Ordering) -> Worker:
        self._add_configured()
        if queues is None:
            queues = sorted(self._registry.queues | {"default"})
        total = self.settings.concurrency if concurrency is None and not isinstance(queues, Mapping) else concurrency
        return Worker(
            self._store, self._registry.kinds, queues=queues, concurrency=total, order=order, **self._work_options()
        )

    def _single_job_worker(self, job: NewJob, reservation_id: str) -> SingleJobWorker:
        return SingleJobWorker(
            self._store,
            self._registry.kinds,
            queues={job.queue: 1},
            job_id=job.id,
            reservation_id=reservation_id,
            **self._work_options(),
        )

    def _work_options(self) -> dict[str, Any]:
        _ = self._is_observed
        return {
            "settings": self.settings,
            "hooks": self._hooks,
            "middleware": self._middleware,
            "startup": self._startup,
            "shutdown": self._shutdown,
            "wake": self._wake,
            "emitted": self._emitted,
            "definitions": self._definitions,
            "declare": self._declaration,
            "vault": self._vault,
            "places": self._places,
            "tracing": self._tracing,
            "metrics": self._worker_metrics,
            "version": __version__,
        }

    def _declaration(self, now: datetime) -> Declaration:
        """What a worker of this app writes when it starts."""
        return Declaration(
            definitions=declarations(self._registry),
            schedules=tuple(each.row(self._own_tenant, now, tz=self._tz) for each in self._registry.schedules),
        )
