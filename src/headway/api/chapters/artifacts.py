"""Artifacts: the files that jobs stored, to list, to download, and to upload by workers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import StreamingResponse

from headway.api.access.narrowed import is_narrowed, seen_ids
from headway.api.call import Answer, Call
from headway.api.routes import READERS, VIEWERS, WORKERS, Routes
from headway.api.wire.cursors import not_a_cursor
from headway.api.wire.pages import PageQuery, page
from headway.api.wire.problems import Refused
from headway.api.wire.views import ArtifactView, Listed, artifact_view
from headway.api.workers.requests import fence_of, job_id_of, refuse_lost, valid_worker_id
from headway.errors import ArtifactElsewhere, ArtifactGone, NotFound
from headway.model.artifact import Artifact
from headway.model.ids import is_id
from headway.worker.artifacts import ArtifactWriter, Attempted

routes = Routes("artifacts")

_BLOCK = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_LARGEST = 5 * 2**30

# a file that a job made is never a page of ours: no script of it runs with a visitor's session
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
}


class ArtifactQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    job: str | None = None


class ArtifactList(msgspec.Struct):
    items: list[ArtifactView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/artifacts", roles=VIEWERS, query=ArtifactQuery, answers={200: ArtifactList}, problems=(422,))
async def list_artifacts(call: Call[None, ArtifactQuery]) -> Listed:
    """List artifacts, newest first; `job` names the job that stored them."""
    query = call.query
    if query.job is not None and not is_id(query.job):
        raise Refused(422, f"job={query.job[:80]!r} is not the id of a job")

    async def fetch(count: int, before: str | None) -> list[Artifact]:
        if before is not None and not is_id(before):
            raise not_a_cursor()
        return await call.verbs.aartifacts(query.job, limit=count, before=before)

    listed = await page("artifacts", query, fetch, key=lambda each: each.id)
    if is_narrowed(call):
        seen = await seen_ids(call, (each.job_id for each in listed.items))
        listed.items = [each for each in listed.items if each.job_id in seen]
    listed.items = [artifact_view(each) for each in listed.items]
    return listed


@routes.get("/artifacts/{id}", roles=READERS, answers={200: ArtifactView}, problems=(404,))
async def get_artifact(call: Call[None, None]) -> Any:
    """Give what is known of an artifact."""
    return artifact_view(await _seen(call))


@routes.get(
    "/artifacts/{id}/content", roles=READERS, answers={200: None, 206: None}, problems=(403, 404, 409), file=True
)
async def get_artifact_content(call: Call[None, None]) -> StreamingResponse:
    """Download an artifact's bytes, as an attachment; `Range` asks for a part. 409: they are on another host."""
    found = await _seen(call)
    # pages show its beginning, without secrets
    is_download = call.http.url.path.endswith("/content")
    if is_download and call.key.role == "viewer" and found.name.startswith("."):
        raise Refused(
            403,
            "this is a payload or result that was too large for its row, in which a viewer's key does not see secrets",
            fix="use a key of another role",
        )
    try:
        file = await call.app._places.aopen(found)
    except ArtifactElsewhere:
        raise Refused(
            409,
            "its bytes are in a folder of another host, which this server does not have",
            code="ArtifactElsewhere",
            fix="ask a server of that host, or keep artifacts in an object store",
        ) from None
    except ArtifactGone:
        raise Refused(
            409, "its bytes are not there any more: somebody deleted or changed them", code="ArtifactGone"
        ) from None
    etag = f'"{found.sha256}"'
    part = _asked_part(call, found.size, etag)
    start, end = part or (0, found.size)

    def content() -> Any:
        with file:
            file.seek(start)
            left = end - start
            while left and (block := file.read(min(_BLOCK, left))):
                left -= len(block)
                yield block

    headers = _HEADERS | {
        "Content-Length": str(end - start),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
        "ETag": etag,
    }
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
    return StreamingResponse(content(), 200 if part is None else 206, headers, found.content_type)


def _asked_part(call: Call[Any, Any], size: int, etag: str) -> tuple[int, int] | None:
    """The one part that the request asks for; None: all of it, as for a range that cannot be satisfied."""
    asked = _RANGE.fullmatch(call.headers.get("range", "").strip())
    if asked is None or call.headers.get("if-range", etag) != etag or asked[1] == asked[2] == "":
        return None
    if asked[1] == "":
        start, end = max(0, size - int(asked[2])), size
    else:
        start, end = int(asked[1]), min(size, int(asked[2]) + 1) if asked[2] else size
    return (start, end) if start < end else None


class UploadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    worker_id: str = ""
    fence: int | None = None
    attempt_no: int | None = None
    name: str = ""
    content_type: str | None = None


@routes.post(
    "/worker/jobs/{id}/artifacts",
    roles=WORKERS,
    query=UploadQuery,
    answers={201: ArtifactView},
    problems=(404, 409, 422),
    limit=_LARGEST,
    upload=True,
)
async def upload_artifact(call: Call[None, UploadQuery]) -> Answer:
    """Store a file with a running attempt: the body is its bytes. Upload before the job is completed."""
    job_id, store = job_id_of(call), call.app.store
    jobs = await store.arun(store.ops.get([job_id], tenant_id=call.verbs.tenant_id))
    if not jobs:
        raise NotFound(f"there is no job {job_id}")
    worker_id = valid_worker_id(call.query.worker_id)
    claim = (job_id, fence_of(call.query))
    if not await call.server.workers.check(worker_id, call.key) or claim not in await store.arun(
        store.ops.running(worker_id, tenant_id=call.verbs._visible_tenant)
    ):
        raise await refuse_lost(call, claim)
    assert call.upload is not None
    writer = ArtifactWriter(store.ops, call.app._places, store.arun)
    attempt = Attempted(job_id, jobs[0].tenant_id, claim[1])
    kept = await writer.astore(attempt, call.query.name, call.upload, call.query.content_type)
    return Answer(201, artifact_view(kept))


async def _seen(call: Call[Any, Any]) -> Artifact:
    """The artifact of the path, if the key may see its job."""
    text = call.params["id"]
    if not is_id(text):
        raise NotFound(f"there is no artifact {text[:80]}")
    found = await call.verbs.aartifact(text)
    if is_narrowed(call) and not await seen_ids(call, [found.job_id]):
        raise NotFound(f"there is no artifact {found.id}")
    return found
