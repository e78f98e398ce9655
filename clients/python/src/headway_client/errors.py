"""Every error that the client raises on purpose, under one base class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class HeadwayError(Exception):
    """The base of all errors of this package."""


class ConfigError(HeadwayError):
    """A setting cannot be used; the message names it."""


class ApiError(HeadwayError):
    """The server refused a request. `code` is the name of the error, `fix` says what to do, `errors` where."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", ""))
        self.detail = str(problem.get("detail", "")) or f"the server answered {status}"
        self.fix = str(problem.get("fix", ""))
        self.errors = list(problem.get("errors", []))
        self.request_id = str(problem.get("request_id", ""))
        self.job_id: str | None = problem.get("job_id") or None
        super().__init__(f"{self.detail}; {self.fix}" if self.fix else self.detail)


class Unauthorized(ApiError):
    """401: the key is missing, unknown, revoked or expired."""


class NotAllowed(ApiError):
    """403: the key's role, tenant, queues or kinds do not allow it; 409: the job's status does not."""


class NotFound(ApiError):
    """404: there is no such thing, or it is another tenant's."""


class Duplicate(ApiError):
    """409: a unique key is taken; `job_id` is the job that has it."""


class LeaseLost(ApiError):
    """409: a worker does not have its claim any more."""


class Invalid(ApiError):
    """400, 413, 415, 422: the request is not valid."""


class TooMany(ApiError):
    """429: too many requests, or too many jobs wait."""


class Unavailable(HeadwayError):
    """The server or its database could not be reached, even after several tries."""


class UnavailableAnswer(ApiError, Unavailable):
    """502, 503, 504: the server, or a proxy before it, said so itself."""


class UnexpectedAnswer(HeadwayError):
    """The server's answer is not what its API promises: it may be another program, a proxy, or a much newer server.
    `status` is that of an answer that is no success."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class JobFailed(HeadwayError):
    """The job whose result was asked for did not succeed."""

    def __init__(self, message: str, *, status: str, error: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.error = error


class NotFinished(HeadwayError):
    """The job whose result was asked for has not ended yet."""


_BY_CODE: dict[str, type[ApiError]] = {"Duplicate": Duplicate, "LeaseLost": LeaseLost, "NotAllowed": NotAllowed}
_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: NotAllowed,
    404: NotFound,
    400: Invalid,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
    502: UnavailableAnswer,
    503: UnavailableAnswer,
    504: UnavailableAnswer,
}


def error_of(status: int, problem: Mapping[str, Any]) -> ApiError:
    found = _BY_CODE.get(str(problem.get("code", ""))) or _BY_STATUS.get(status, ApiError)
    return found(status, problem)
