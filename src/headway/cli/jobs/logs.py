"""`headway jobs logs`: what a job's executions logged, live if it is running."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from headway.cli.jobs.job_page import took
from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.output import emit, first_line, note, readable
from headway.cli.program.params import JobId
from headway.model.status import FINISHED
from headway.printable import printable_json

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.job import Attempt, Job

_EVERY_S = 0.5
_MATCHED = 200
"""How many of the last characters shown are used to find that place again."""


@click.command(cls=Command)
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--attempt", "fence", type=int, metavar="FENCE", help="Only this execution, as jobs show numbers it.")
@pass_invocation
def logs(cli: Invocation, /, job_id: str, follow: bool, fence: int | None) -> None:
    """Print what a job logged, execution by execution; for a command, what its program wrote.

    The last execution is shown in full; of earlier ones, the ends of stdout and stderr are kept. Only the log text goes
    to stdout.

    \b
    headway jobs logs ID
    headway jobs logs -f ID
    headway jobs logs ID --attempt 2
    headway jobs logs ID --json | jq -r '.attempts[-1].stderr_tail'
    """
    if follow and fence is not None:
        raise click.UsageError("--follow shows what comes next: leave --attempt out")
    app = cli.existing
    if follow:
        _Following(app, cli.json).until_over(job_id)
        return
    job, attempts = app.get(job_id), app.attempts(job_id)
    if fence is not None:
        attempts = [attempt for attempt in attempts if attempt.fence == fence]
        if not attempts:
            from headway.cli.program.failure import Refused

            raise Refused(f"job {job.id} has no execution {fence}: {cli.typed('jobs', 'show', job.id)} has them all")
    if cli.json:
        tails = [_tails(attempt) for attempt in attempts]
        log = {"log_tail": job.log_tail, "log_end": job.log_end}
        emit({"id": job.id, "status": job.status, "fence": job.fence, **log, "attempts": tails})
        return
    out = _Out()
    for attempt in attempts:
        if len(attempts) > 1:
            out.note(_headline(attempt))
        _print(out, job, attempt)
    out.end()
    if not attempts:
        note(f"job {job.id} is {job.status}, and has not run yet")
    elif not out.anything:
        note(f"job {job.id} is {job.status}, and logged nothing")
    if job.status == "running" and fence is None:
        note(f"it is running; to follow it: {cli.typed('jobs', 'logs', '-f', job.id)}")


def _print(out: _Out, job: Job, attempt: Attempt) -> None:
    if attempt.fence == job.fence and job.log_tail is not None:
        missing = (job.log_end or 0) - len(job.log_tail)
        if missing > 0:
            out.note(_not_kept(missing))
        out.write(job.log_tail)
        return
    if attempt.stdout_tail:
        out.write(attempt.stdout_tail)
    if attempt.stderr_tail:
        out.note("stderr:")
        out.write(attempt.stderr_tail)


class _Out:
    """Log text on stdout, and remarks on stderr, each on a line of its own."""

    def __init__(self) -> None:
        self.anything = False
        self._mid_line = False

    def write(self, text: str) -> None:
        text = readable(text)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self.anything = True
            self._mid_line = not text.endswith("\n")

    def note(self, text: str) -> None:
        self.end()
        note(text)

    def end(self) -> None:
        if self._mid_line:
            self._mid_line = False
            sys.stdout.write("\n")
            sys.stdout.flush()


class _Following:
    """Polls a job and prints what is new in its log."""

    def __init__(self, app: Headway, as_json: bool) -> None:
        self._app, self._json = app, as_json
        self._out = _Out()
        self._fence = 0
        self._seen = 0  # characters of this execution's log
        self._tail = ""  # what was seen last
        self._told = True  # whether the end of this execution was reported, or there is none

    def until_over(self, job_id: str) -> None:
        waits = False
        while True:
            job = self._app.get(job_id)
            self._look(job)
            if job.status in FINISHED:
                break
            if job.status != "running" and not waits:
                self._tell_end(job)
                self._remark(f"it is {job.status}: waiting for it to run")
            waits = job.status != "running"
            time.sleep(_EVERY_S)
        reason = f": {first_line(job.error)}" if job.error else ""
        self._say({"status": job.status, "error": job.error}, f"job {job.id} {job.status}{reason}")

    def _look(self, job: Job) -> None:
        # a new execution begins a new log, and so does a machine's next step
        if job.fence != self._fence or (job.log_end or 0) < self._seen:
            self._catch_up(job)
        tail = job.log_tail or ""
        end = len(tail) if job.log_end is None else job.log_end
        start = end - len(tail)
        if start > self._seen:
            self._remark(_not_kept(start - self._seen))
        self._new(tail[max(0, self._seen - start) :])
        self._seen, self._tail = end, tail

    def _catch_up(self, job: Job) -> None:
        """Print how the executions ended that did so since the last look, and start with the current one."""
        for attempt in self._app.attempts(job.id) if self._fence else ():
            if attempt.fence == self._fence:
                self._new(_rest(self._tail, attempt.stdout_tail or ""))
                self._out.end()
                self._new(_rest(self._tail, attempt.stderr_tail or ""))
                self._ended(attempt)
            elif self._fence < attempt.fence < job.fence:
                self._begin(attempt.fence)
                self._new(attempt.stdout_tail or "")
                self._out.end()
                self._new(attempt.stderr_tail or "")
                self._ended(attempt)
        if self._fence != job.fence:
            self._begin(job.fence)
        self._seen, self._tail = 0, ""

    def _tell_end(self, job: Job) -> None:
        for attempt in () if self._told else self._app.attempts(job.id):
            if attempt.fence == self._fence:
                self._ended(attempt)

    def _begin(self, fence: int) -> None:
        self._fence, self._told = fence, False
        if fence > 1:
            self._say({"fence": fence}, f"execution {fence}")

    def _ended(self, attempt: Attempt) -> None:
        if attempt.finished_at is not None and not self._told:
            self._told = True
            self._say({"fence": attempt.fence, "ended": attempt.status, "error": attempt.error}, _headline(attempt))

    def _new(self, text: str) -> None:
        if not self._json:
            self._out.write(text)
        elif text:
            self._line({"fence": self._fence, "text": text})

    def _remark(self, text: str) -> None:
        self._say({"note": text}, text)

    def _say(self, fields: dict[str, object], text: str) -> None:
        if self._json:
            self._line(fields)
        else:
            self._out.note(text)

    def _line(self, fields: dict[str, object]) -> None:
        sys.stdout.write(printable_json(json.dumps(fields, ensure_ascii=False)) + "\n")
        sys.stdout.flush()


def _rest(seen: str, whole: str) -> str:
    """The part of an ended execution's log, or of one of its program's streams, that was not shown yet."""
    if not seen:
        return whole
    end = seen[-_MATCHED:]
    at = whole.rfind(end)
    if at >= 0:
        return whole[at + len(end) :]
    # what was shown has the lines of both streams, each in its own order
    lines = whole.splitlines(keepends=True)
    known = 0
    for line in seen.splitlines():
        if known < len(lines) and line == lines[known].rstrip("\r\n"):
            known += 1
    return "".join(lines[known:])


def _headline(attempt: Attempt) -> str:
    code = f", exit code {attempt.exit_code}" if attempt.exit_code is not None else ""
    reason = f": {first_line(attempt.error)}" if attempt.error else ""
    return f"execution {attempt.fence}, {attempt.status} after {took(attempt)}{code}{reason}"


def _tails(attempt: Attempt) -> dict[str, object]:
    names = ("fence", "status", "exit_code", "pid", "stdout_tail", "stderr_tail", "error")
    return {name: getattr(attempt, name) for name in names}


def _not_kept(count: int) -> str:
    return f"{count:,} characters before this were not kept"
