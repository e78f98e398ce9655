"""What the API shows of a job, attempt or event: ours, with the names of the older contract beside them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headway.model.artifact import Artifact
from headway.model.event import Event
from headway.model.job import Attempt, Job
from headway.model.signal import is_internal

Json = Annotated[msgspec.Raw, msgspec.Meta(description="Any JSON; it is stored and given back as it is.")]
JsonObject = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        description="A JSON object; it is stored and given back as it is.", extra_json_schema={"type": "object"}
    ),
]

_JOB_ALIASES = {
    "definition_key": "kind",
    "dedupe_key": "unique_key",
    "attempt_count": "fence",
    "last_error": "error",
    "claimed_by_worker": "worker_id",
}
_ATTEMPT_ALIASES = {"attempt_no": "fence", "error_text": "error"}


def _with_aliases(name: str, struct: type[msgspec.Struct], aliases: dict[str, str]) -> type[msgspec.Struct]:
    """A struct of the same fields and the aliases, for the OpenAPI document."""
    fields = {field.name: field.type for field in msgspec.structs.fields(struct)}
    fields |= {alias: fields[meant] for alias, meant in aliases.items()}
    fields |= {"trace": str} if struct is Job else {"artifacts": tuple[ArtifactView, ...]}  # type: ignore[valid-type]
    return msgspec.defstruct(name, list(fields.items()), namespace={"__doc__": struct.__doc__})


ArtifactView = msgspec.defstruct(
    "Artifact",
    [(each.name, each.type) for each in msgspec.structs.fields(Artifact) if each.name not in ("store", "path")],
    namespace={"__doc__": "A file that an attempt stored."},
)
JobView = _with_aliases("Job", Job, _JOB_ALIASES)
AttemptView = _with_aliases("Attempt", Attempt, _ATTEMPT_ALIASES)
EventView = Event


class Listed(msgspec.Struct):
    """One page of a list."""

    items: list[Any]
    next_cursor: str | None = None


class LargeList(Listed):
    """One whose items may be large: it is not made into JSON on the event loop."""


def job_view(job: Job) -> dict[str, Any]:
    fields = msgspec.structs.asdict(job)
    fields["awaiting"] = [name for name in job.awaiting if not is_internal(name)]
    return fields | {alias: fields[meant] for alias, meant in _JOB_ALIASES.items()} | {"trace": job.trace}


def artifact_view(artifact: Artifact) -> dict[str, Any]:
    """Without the place of its bytes, which only operators need."""
    fields = msgspec.structs.asdict(artifact)
    return {name: value for name, value in fields.items() if name not in ("store", "path")}


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    fields = msgspec.structs.asdict(attempt)
    fields["artifacts"] = [artifact_view(each) for each in attempt.artifacts]
    return fields | {alias: fields[meant] for alias, meant in _ATTEMPT_ALIASES.items()}
