"""`headway demo`: a few hundred jobs on a new SQLite file, a worker that is killed in the middle, and the result."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation, program
from headway.cli.program.output import emit, say
from headway.cli.program.server_packages import need_server_packages
from headway.shell import quoted

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.job import Job

QUEUES = "mail=8,images=4,reports=3"
LIMIT_S = 50.0
KILL_AT = 0.35
_LOOK_EVERY_S = 0.1

Tell = Callable[[str], None]


@click.command(cls=Command, short_help="See it work, in fifteen seconds.")
@click.option("--web", is_flag=True, help="Look at a shop at work in the dashboard, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8420, help="Of the dashboard; 0: any free one.  [default: 8420]"
)
@click.option("--open/--no-open", "opens", default=True, help="Open the dashboard in the browser.")
@pass_invocation
def demo(cli: Invocation, web: bool, port: int, opens: bool) -> None:
    """Watch it work for about fifteen seconds: no setup, nothing left running.

    Runs about 330 jobs on a new SQLite file in a temporary folder: some fail and are retried, one dies, one is
    canceled, and the worker is killed (kill -9) in the middle. Every number shown is read from the database.

    With --web, a worker and the dashboard run until Ctrl-C, in the same way as with headway dev, with the work of a
    shop: three tenants, failures, a train on hold, refunds that wait, and a week of numbers. On a new SQLite file, or
    on the empty database that --url names.

    \b
    headway demo
    headway demo --web
    """
    if web:
        _web(cli, port, opens)
        return
    from headway.cli.demo.screen import Screen

    folder = Path(tempfile.mkdtemp(prefix="headway-demo-"))
    story = Story(folder)
    with Screen(quiet=cli.json) as screen:
        try:
            story.run(screen.tell, screen.show)
        finally:
            story.close()
    summary = story.summary()
    if cli.json:
        emit(summary)
        return
    screen.summarize(summary)
    _farewell(story)


def _web(cli: Invocation, port: int, opens: bool) -> None:
    need_server_packages()
    from headway.cli.demo.shop import QUEUES as QUEUES_OF_THE_SHOP
    from headway.cli.demo.shop import fill
    from headway.cli.dev.dev import run

    folder = tempfile.mkdtemp(prefix="headway-demo-")
    cli.url = cli.url or f"sqlite:///{folder}/shop.db"
    os.environ.setdefault("HEADWAY_ARTIFACTS", f"{folder}/artifacts")  # of the worker and the server, too
    cli.app_spec = "headway.cli.demo.shop:app"
    cli.code.migrate()
    if sum(cli.code.counts(most=1).values()):
        raise Refused("this database has jobs already: give --url of an empty one, or none")
    say("filling   a shop with three tenants, about ten seconds")
    logging.getLogger("headway").setLevel(logging.CRITICAL)  # its failures are shown in the dashboard, not logged
    fill(cli.code)
    try:
        run(
            cli,
            port=port,
            opens=opens,
            reload=False,
            flags=("--log-level", "error"),
            worker_flags=("--queues", ",".join(f"{name}={slots}" for name, slots in QUEUES_OF_THE_SHOP.items())),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Story:
    """The script: enqueue all jobs, start a worker, kill it, start another, cancel one job."""

    def __init__(self, folder: Path) -> None:
        from headway.app import Headway
        from headway.demo import kinds

        self.folder = folder
        self.url = f"sqlite:///{folder / 'demo.db'}"
        self.app: Headway = Headway(self.url)
        self.app.include(kinds)
        self.jobs: list[Job] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = (folder / "worker.log").open("ab")
        self._given_fd, self._kept_fd = os.pipe()
        self._began = time.monotonic()
        self._took_s = 0.0
        self._killed: dict[str, int] | None = None
        self._lost_worker_ids: set[str | None] = set()
        self._canceled = False

    def run(self, tell: Tell, show: Callable[[list[Job]], None]) -> None:
        """Run it and report each step; raises `Refused` if it does not end in time."""
        from headway.demo import workload
        from headway.model.status import FINISHED

        enqueued = self.app.enqueue_many(workload())
        tell(f"enqueued {len(enqueued)} jobs into {self.folder / 'demo.db'}, in one transaction")
        self._start_worker(tell)
        while True:
            self.jobs = self.app.jobs(limit=1_000)
            show(self.jobs)
            ended = sum(job.status in FINISHED for job in self.jobs)
            if ended == len(enqueued):
                break
            if self._killed is None and ended >= KILL_AT * len(enqueued):
                self._kill_worker(tell)
                self._start_worker(tell)
            elif self._killed is not None:
                self._cancel_the_endless_one(tell)
            self._check()
            time.sleep(_LOOK_EVERY_S)
        self._took_s = time.monotonic() - self._began

    def close(self) -> None:
        """Stop the worker: gracefully once all is done, else by force."""
        if self._worker is not None and self._worker.poll() is None:
            self._worker.terminate()
            try:
                self._worker.wait(10 if self._took_s else 0.1)
            except subprocess.TimeoutExpired:
                self._worker.kill()
                self._worker.wait()
        self._log.close()
        os.close(self._given_fd)
        os.close(self._kept_fd)
        self.app.close()

    def summary(self) -> dict[str, Any]:
        """The final numbers, all from the rows: executions by fence, failures by tries, crashes by losses."""
        by_kind = []
        for kind in sorted({job.kind for job in self.jobs}):
            jobs = [job for job in self.jobs if job.kind == kind]
            by_kind.append({"kind": kind, **_counts(jobs)})
        return {
            "url": self.url,
            "seconds": round(self._took_s, 1),
            "killed": self._killed,
            "kinds": by_kind,
            "total": _counts(self.jobs),
        }

    def _start_worker(self, tell: Tell) -> None:
        from headway.worker.os_signals import SUPERVISOR_FD

        command = [sys.executable, "-m", "headway", "--url", self.url, "--log-format", "text", "worker"]
        # a short lease, for systems where one process cannot see another one die
        timing = ["--lease", "4s", "--heartbeat", "1s", "--reap-every", "1s", "--grace", "2s"]
        self._worker = subprocess.Popen(
            [*command, "headway.demo:kinds", "--queues", QUEUES, *timing],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            # we pass Ctrl-C on ourselves; if we are killed, the closed pipe stops it
            start_new_session=True,
            env={**os.environ, SUPERVISOR_FD: str(self._given_fd)},
            pass_fds=(self._given_fd,),
        )
        tell(f"started a worker, pid {self._worker.pid}, queues {QUEUES}")

    def _kill_worker(self, tell: Tell) -> None:
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()
        running = self.app.jobs(status="running", limit=1_000)
        self._lost_worker_ids = {job.worker_id for job in running}
        self._killed = {"pid": self._worker.pid, "running": len(running)}
        tell(f"killed worker {self._worker.pid} (kill -9) while {len(running)} jobs were running")

    def _cancel_the_endless_one(self, tell: Tell) -> None:
        from headway.demo import ENDLESS

        for job in self.jobs:
            if self._canceled or job.payload.get("about") != ENDLESS or job.status != "running":
                continue
            # claimed by the new worker, and running
            if job.progress and job.worker_id not in self._lost_worker_ids:
                self.app.cancel(job.id, reason="it would have run for an hour", actor=actor())
                self._canceled = True
                tell(f"canceled a report while it was running ({job.progress_note})")

    def _check(self) -> None:
        assert self._worker is not None
        if self._worker.poll() is not None:
            end = (self.folder / "worker.log").read_text(errors="replace").strip().splitlines()[-1:]
            raise Refused(f"the demo's worker ended with {self._worker.returncode}: {''.join(end)}")
        if time.monotonic() - self._began > LIMIT_S:
            raise Refused(f"the demo did not end in {LIMIT_S:.0f} s; its worker's log: {self.folder / 'worker.log'}")


def _counts(jobs: list[Job]) -> dict[str, int]:
    from headway.model.status import FINISHED

    return {
        "jobs": len(jobs),
        **{status: sum(job.status == status for job in jobs) for status in FINISHED},
        "executions": sum(job.fence for job in jobs),
        "failures": sum(job.tries for job in jobs),
        "losses": sum(job.losses for job in jobs),
    }


def _farewell(story: Story) -> None:
    from headway.demo import NOBODY

    dead = next((job for job in story.jobs if job.payload.get("to") == NOBODY), story.jobs[0])
    command = f"{program()} --url {quoted([story.url])}"
    say("\nLook at it:", "bold")
    for rest in ("jobs list --status dead", f"jobs show {dead.id}", "doctor"):
        say(f"  {command} {rest}")
    say("\nGo on: save this as work.py", "bold")
    say("  from headway import Headway")
    say("  app = Headway()")
    say("  @app.job(max_attempts=3)")
    say("  async def welcome(user_id: int) -> None: print('hello', user_id)")
    say("and run:", "bold")
    say(f"  {program()} enqueue welcome '{{\"user_id\": 7}}' --app work:app")
    say(f"  {program()} worker work:app --until-idle")
