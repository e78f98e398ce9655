"""What an answer that is not a success says: problem+json (RFC 9457), with the words of `headway.errors`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway import errors

MEDIA_TYPE = "application/problem+json"

TITLES = {
    400: "The request cannot be read",
    401: "Who are you?",
    403: "Not allowed with this key",
    404: "Not found",
    405: "No such method here",
    408: "The request took too long to arrive",
    409: "In conflict with what is stored",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Not a media type that is read here",
    422: "Not valid",
    429: "Too many",
    500: "A fault of the server",
    503: "Cannot be done right now",
}

# the first that fits; what is not here is a fault of the server
_STATUS: tuple[tuple[type[errors.HeadwayError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Duplicate, 409),
    (errors.TenantSuspended, 403),
    (errors.NotAllowed, 409),
    (errors.NotFinished, 409),
    (errors.ChangedMeanwhile, 412),
    (errors.LeaseLost, 409),
    (errors.ReservationBusy, 409),
    (errors.QueueFull, 429),
    (errors.InvalidPayload, 422),
    (errors.InvalidJob, 422),
    (errors.InvalidOutcome, 422),
    (errors.InvalidArtifact, 422),
    (errors.ArtifactElsewhere, 409),
    (errors.ArtifactGone, 409),
    (errors.ArtifactsUnavailable, 503),
    (errors.RenderError, 422),
    (errors.UnknownKind, 422),
    (errors.StoreUnavailable, 503),
    (errors.StoreFailed, 503),
    (errors.SchemaMissing, 503),
    (errors.SchemaOutdated, 503),
)


_LOG_SAYS = "; the server's log has the reason"
# their messages name the database or the store of artifacts, which callers must not see
_UNAVAILABLE: dict[type[Exception], str] = {
    errors.ArtifactsUnavailable: "the store of artifacts cannot be used right now",
    errors.SchemaMissing: "the database has no tables of Headway",
    errors.SchemaOutdated: "the database has the tables of another release of Headway than this server",
}


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several faults of a request."""

    detail: str
    pointer: str = ""  # a JSON pointer into the body, or the name of a parameter


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The body of an answer of 400 and above."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str = ""
    errors: list[Fault] = []
    fix: str = ""
    job_id: str = ""  # of a conflict: the job that is there already


class Refused(Exception):
    """Ends a request with a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        faults: Sequence[Fault] = (),
        fix: str = "",
        headers: Mapping[str, str] | None = None,
        job_id: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or _CODES[status]
        self.faults = list(faults)
        self.fix = fix
        self.headers = dict(headers or {})
        self.job_id = job_id


_CODES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    412: "PreconditionFailed",
    413: "PayloadTooLarge",
    415: "UnsupportedMediaType",
    422: "InvalidRequest",
    429: "TooManyRequests",
    500: "ServerError",
    503: "StoreUnavailable",
}


CODES = {code: TITLES[status] for status, code in _CODES.items()} | {
    "UnknownHost": "The server is not known under the name that the request gives it",
    "UnexpectedCount": "A bulk action is about more or fewer jobs than expected",
    "CrossSite": "A page of another site sent a change with this site's cookie",
    "IssuerUnavailable": "The issuer of tokens cannot be asked right now",
}
"""The codes that are no error of the library, with what each means."""


def slug_of(code: str) -> str:
    """A code as a part of an address.

    >>> slug_of("NotFound")
    'not-found'
    """
    return "".join(f"-{each.lower()}" if each.isupper() else each for each in code).strip("-")


_PART = re.compile(r'\.([^.\[]+)|\[(\d+|"(?:[^"\\]|\\.)*")\]')
_PATH = re.compile(r" at (\$[^\s:]*)")
_OPTION = re.compile(r"(?:the )?([a-z_]+)[= ]")


def path_parts(path: str) -> list[str | int]:
    """The names and places of a path such as `$.jobs[3].payload["a b"]`; up to `[...]`, which is some place in it."""
    parts: list[str | int] = []
    for name, inner in _PART.findall(path.partition("[...]")[0]):
        parts.append(name or (msgspec.json.decode(inner)))
    return parts


def pointer(parts: Sequence[str | int]) -> str:
    """The same as a JSON pointer (RFC 6901).

    >>> pointer(path_parts('$.jobs[3].payload["a b"].c/d'))
    '/jobs/3/payload/a b/c~1d'
    >>> pointer(path_parts("$.payload[...]"))
    '/payload'
    """
    return "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in parts)


def refused_at(error: Exception, at: Sequence[str | int], named: Sequence[str]) -> Exception:
    """The refusal of a part of the body, with a pointer to it: to the value of a payload that does not fit, or to the
    field among `named` that the message begins with. What is no fault of the body stays as it is."""
    said = str(error)
    parts = list(at)
    if isinstance(error, errors.InvalidPayload):
        path = _PATH.search(said)
        parts += ["payload", *(path_parts(path[1]) if path else ())]
    elif (option := _OPTION.match(said)) and option[1] in named:
        parts.append(option[1])
    return refused_with_pointer(error, at, parts) if parts else error


def refused_with_pointer(error: Exception, at: Sequence[str | int], parts: Sequence[str | int]) -> Exception:
    """The refusal of what is at `parts` of the body, which belongs to the job at `at`, if there are several. What is no
    fault of the body stays as it is."""
    if isinstance(error, errors.StoreError) or not isinstance(error, Refused | errors.HeadwayError):
        return error
    found, headers = problem_of(error, "")
    if found.status not in (403, 404, 409, 422):
        return error
    detail = f"{pointer(at)}: {found.detail}" if at else found.detail
    faults = [Fault(each.detail, pointer(at) + each.pointer) for each in found.errors] or [
        Fault(str(error), pointer(parts))
    ]
    return Refused(
        found.status, detail, code=found.code, faults=faults, fix=found.fix, headers=headers, job_id=found.job_id
    )


def problem_of(error: Exception, request_id: str, *, below: str = "") -> tuple[Problem, dict[str, str]]:
    """The problem that an error becomes, and its headers; the page that explains it is below the path `below`. Nothing
    of an unexpected error is shown."""
    if isinstance(error, Refused):
        status, headers = error.status, error.headers
        said: dict[str, Any] = {
            "detail": error.detail,
            "code": error.code,
            "errors": error.faults,
            "fix": error.fix,
            "job_id": error.job_id,
        }
    elif isinstance(error, errors.HeadwayError):
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        headers = {"Retry-After": "1"} if status == 503 else {}
        said = {"detail": str(error), "code": type(error).__name__}
        if isinstance(error, errors.StoreError | errors.ArtifactsUnavailable):
            said["detail"] = _UNAVAILABLE.get(type(error), "the database cannot be used right now") + _LOG_SAYS
        if isinstance(error, errors.Duplicate) and error.job_id:
            said["job_id"] = error.job_id
    else:
        status, headers = 500, {}
        said = {"detail": "The server failed at this request; its log has the reason.", "code": "ServerError"}
    found = Problem(
        type=f"{below}/api/v1/docs#problem-{slug_of(said['code'])}",
        title=TITLES[status],
        status=status,
        request_id=request_id,
        **said,
    )
    return found, headers
