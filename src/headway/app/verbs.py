"""Verbs: everything that an application can ask for, in both colours, for one tenant or for all."""

from __future__ import annotations

from headway.app.aio.api_keys import AsyncApiKeyVerbs
from headway.app.aio.artifacts import AsyncArtifactVerbs
from headway.app.aio.backfill import AsyncBackfillVerbs
from headway.app.aio.definitions import AsyncDefinitionVerbs
from headway.app.aio.delete import AsyncDeleteVerbs
from headway.app.aio.enqueue import AsyncEnqueueVerbs
from headway.app.aio.error_groups import AsyncErrorVerbs
from headway.app.aio.events import AsyncEventVerbs
from headway.app.aio.groups import AsyncGroupVerbs
from headway.app.aio.job_lists import AsyncJobListVerbs
from headway.app.aio.jobs import AsyncJobVerbs
from headway.app.aio.limits import AsyncLimitVerbs
from headway.app.aio.machines import AsyncMachineVerbs
from headway.app.aio.overview import AsyncOverviewVerbs
from headway.app.aio.queues import AsyncQueueVerbs
from headway.app.aio.run_now import AsyncRunNowVerbs
from headway.app.aio.schedules import AsyncScheduleVerbs
from headway.app.aio.stats import AsyncStatVerbs
from headway.app.aio.templates import AsyncTemplateVerbs
from headway.app.aio.trains import AsyncTrainVerbs
from headway.app.aio.triggers import AsyncTriggerVerbs
from headway.app.aio.webhooks import AsyncWebhookVerbs
from headway.app.reservations import ReservationVerbs


class Verbs(
    AsyncOverviewVerbs,
    AsyncJobVerbs,
    AsyncDeleteVerbs,
    AsyncMachineVerbs,
    AsyncTrainVerbs,
    AsyncGroupVerbs,
    AsyncLimitVerbs,
    ReservationVerbs,
    AsyncRunNowVerbs,
    AsyncQueueVerbs,
    AsyncDefinitionVerbs,
    AsyncTemplateVerbs,
    AsyncWebhookVerbs,
    AsyncScheduleVerbs,
    AsyncBackfillVerbs,
    AsyncTriggerVerbs,
    AsyncEventVerbs,
    AsyncEnqueueVerbs,
    AsyncApiKeyVerbs,
    AsyncJobListVerbs,
    AsyncStatVerbs,
    AsyncArtifactVerbs,
    AsyncErrorVerbs,
):
    """Enqueue, look, operate. `app` has these for every tenant, `app.tenant(name)` for one alone."""
