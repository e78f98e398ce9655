"""The contract of workers over HTTP: what a client's worker does while it, its network or the order of its jobs makes
trouble. One list for both clients, which run as programs; what they really ran is in a ledger outside."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from headway import Headway
from tests.clients import parked_machines
from tests.clients.node import PACKAGE, environment
from tests.clients.parked_machines import KIDS, QUEUE
from tests.clients.served import Served
from tests.connectors.loopback import Asked, answer, serving
from tests.crash.forked_programs import ForkedProgram
from tests.crash.processes import until

_LONG = 120_000
_SELDOM_S = 5.0  # on a busy machine an answer may come later than two quick heartbeats: its jobs are then released
_starting = threading.Lock()
Fate = Callable[[str, str, str], "str | threading.Event"]
"""Of a path, what was sent and what was answered: forward, lose, or an event to hold the answer back for."""


class Bench:
    """A server, the client under test, and the ledger."""

    def __init__(self, served: Served, client: str, folder: Path) -> None:
        self.app = Headway(served.url)
        self._served, self._client, self._folder = served, client, folder
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._programs: list[Any] = []

    def worker(
        self, queue: str, slots: int = 4, *, api: str | None = None, grace: str = "20s", heartbeat: float = 0.3
    ) -> Any:
        """Starts one: a process, to be killed, stopped and waited for."""
        log = self._folder / f"worker{len(self._programs)}.log"
        more = {"HEADWAY_API": api or self._served.address, "HEADWAY_GRACE": grace, "LEDGER": str(self._ledger)}
        env = environment(**self._served.keys, **more, HEARTBEAT=str(heartbeat))
        if self._client == "engine":
            return self.engine_worker(queue)
        with _starting:
            if self._client == "python":
                program: Any = ForkedProgram("tests.clients.contract_worker", [queue, str(slots)], env, log)
            else:
                command = ["node", str(PACKAGE / "build" / "contract_worker.js"), queue, str(slots)]
                with log.open("wb") as written:
                    program = subprocess.Popen(command, env=env, stdout=written, stderr=written)
            self._programs.append(program)
        return program

    def engine_worker(self, queue: str) -> ForkedProgram:
        log = self._folder / f"worker{len(self._programs)}.log"
        env = environment(HEADWAY_URL=self._served.url, LEDGER=str(self._ledger))
        with _starting:
            self._programs.append(ForkedProgram("tests.clients.engine_worker", [queue], env, log))
        return self._programs[-1]

    def file(self, name: str) -> str:
        """A path where there is no file yet."""
        return str(self._folder / name)

    @contextmanager
    def proxy(self, fate: Fate) -> Iterator[str]:
        """The address of a proxy that does so to answers, and tells no server that a client hung up."""

        def forward(asked: Asked) -> bytes:
            path = asked.target.removeprefix("/api/v1")
            headers = {name: asked.headers[name] for name in ("authorization", "content-type")}
            url = self._served.address + asked.target
            said = httpx2.request(asked.method, url, content=asked.body, headers=headers, timeout=60)
            done = fate(path, asked.body.decode(), said.text)
            if isinstance(done, threading.Event):
                assert done.wait(60)
            kept = {"content_type": said.headers["content-type"], "date": said.headers["date"]}
            return b"" if done == "lose" else answer(said.status_code, said.content, connection="close", **kept)

        with serving(forward) as server:
            yield server.url

    def enqueue(self, queue: str, ms: int = 0, **options: Any) -> str:
        fail = options.pop("fail", 0)
        return self.app.enqueue("perform", {"ms": ms, "fail": fail}, queue=queue, **options).id

    def said(self, *jobs: str) -> list[list[Any]]:
        """What the ledger has of these jobs, in order."""
        lines = [json.loads(line) for line in self._ledger.read_text().splitlines()]
        return [line for line in lines if line[1] in jobs]

    def begins(self, *jobs: str) -> list[list[Any]]:
        return [line[1:] for line in self.said(*jobs) if line[0] == "begin"]

    def ends(self, job: str, status: str = "succeeded") -> list[str]:
        """Waits for the job's status; gives those of its executions."""
        until(lambda: self.app.get(job).status == status, f"{job} {status}", within=60)
        return [each.status for each in self.app.attempts(job)]

    def begun(self, job: str, fence: int | None = 1) -> None:
        """Waits until this execution of the job (None: any) has begun."""
        until(lambda: [each for each in self.begins(job) if fence in (None, each[1])], f"{job} begins", within=60)

    def close(self) -> None:
        for each in self._programs:
            each.kill()
        for each in self._programs:
            each.wait(30)
        self.app.close()


def a_failed_job_is_tried_again_until_it_succeeds(bench: Bench) -> None:
    job = bench.enqueue("common", fail=2)
    assert bench.ends(job) == ["failed", "failed", "succeeded"]
    assert bench.begins(job) == [[job, 1], [job, 2], [job, 3]]


def the_cars_of_a_train_run_one_after_another(bench: Bench) -> None:
    cars = [bench.enqueue("common", 20, train="t", fail=fail) for fail in (0, 1, 0, 0)]
    for car in cars:
        bench.ends(car)
    assert [_statuses(bench, car) for car in cars] == [
        ["succeeded"],
        ["failed", "succeeded"],
        ["succeeded"],
        ["succeeded"],
    ]
    assert [line[0] for line in bench.said(*cars)] == ["begin", "end"] * 5
    assert [car for car, _ in bench.begins(*cars)] == [cars[0], cars[1], cars[1], cars[2], cars[3]]


def a_dead_car_holds_its_train(bench: Bench) -> None:
    dead = bench.enqueue("common", train="held", fail=1, max_attempts=1, on_dead="hold")
    behind = bench.enqueue("common", train="held")
    assert bench.ends(dead, "dead") == ["failed"]
    assert bench.app.get(behind).status == "held"
    bench.app.retry(dead)
    assert bench.ends(behind) == ["succeeded"]
    assert bench.begins(dead, behind) == [[dead, 1], [dead, 2], [behind, 1]]


def the_jobs_of_a_partition_never_overlap(bench: Bench) -> None:
    jobs = [bench.enqueue("common", 20, partition="p") for _ in range(6)]
    for job in jobs:
        bench.ends(job)
    assert [_statuses(bench, job) for job in jobs] == [["succeeded"]] * 6
    assert [line[0] for line in bench.said(*jobs)] == ["begin", "end"] * 6


def a_machine_runs_each_step_once(bench: Bench) -> None:
    job = bench.app.enqueue("perform_steps", {}, queue="common").id
    until(lambda: bench.app.get(job).status == "waiting", "it waits", within=60)
    bench.app.signal(job, "go", "now")
    assert bench.ends(job) == ["succeeded"] * 3
    assert bench.app.result(job).value == [2, "now"]
    assert bench.begins(job) == [[job, 1], [job, 2], [job, 3]]


def a_killed_worker_loses_its_jobs_to_another(bench: Bench) -> None:
    worker = bench.worker("killed")
    plain = bench.enqueue("killed", _LONG)
    once = bench.enqueue("killed", _LONG, delivery="at_most_once", max_attempts=1)
    for job in (plain, once):
        bench.begun(job)
    worker.kill()
    assert bench.ends(once, "dead") == ["lost"]
    bench.worker("killed")
    bench.begun(plain, 2)
    assert bench.begins(once) == [[once, 1]]
    assert _statuses(bench, plain)[:1] == ["lost"]


def a_worker_that_stops_gives_back_what_it_cannot_end(bench: Bench) -> None:
    worker = bench.worker("stopped", grace="2s")
    short, long = bench.enqueue("stopped", 1_000), bench.enqueue("stopped", _LONG)
    for job in (short, long):
        bench.begun(job)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert bench.ends(short) == ["succeeded"]
    job = bench.app.get(long)
    assert (job.status, job.tries, job.losses) == ("queued", 0, 0)
    bench.worker("stopped")
    bench.begun(long, 2)
    assert bench.begins(short, long)[-1] == [long, 2]


def a_frozen_worker_writes_nothing_when_it_thaws(bench: Bench) -> None:
    worker = bench.worker("frozen")
    job = bench.enqueue("frozen", 1_500)
    bench.begun(job)
    worker.send_signal(signal.SIGSTOP)
    until(lambda: _statuses(bench, job)[:1] == ["lost"], "its job is lost", within=60)
    bench.worker("frozen")
    # its claim that waits may be given the job once more
    *lost, last = bench.ends(job)
    assert ({*lost}, last) == ({"lost"}, "succeeded"), lost
    begins = bench.begins(job)
    assert begins == [[job, 1], [job, len(lost) + 1]]
    worker.send_signal(signal.SIGCONT)
    assert bench.ends(bench.enqueue("frozen")) == ["succeeded"]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert (_statuses(bench, job), bench.begins(job)) == ([*lost, last], begins)


class Late:
    """Holds back the first answer that brings a job, until it is let go."""

    def __init__(self) -> None:
        self.job = ""
        self.fences: list[int] = []
        self.go = threading.Event()

    def fate(self, path: str, _: str, said: str) -> str | threading.Event:
        if not path.endswith("/claim") or not self.job or self.fences:
            return "forward"
        self.fences += [each["fence"] for each in json.loads(said)["jobs"] if each["id"] == self.job]
        return self.go if self.fences else "forward"


def an_answer_later_than_two_heartbeats_begins_nothing(bench: Bench) -> None:
    late = Late()
    with bench.proxy(late.fate) as api:
        bench.worker("late", 2, api=api)
        bench.begun(bench.enqueue("late", _LONG), None)  # it sends heartbeats
        late.job = bench.enqueue("late", delay="1s")
        until(lambda: {"released", "lost"} & {*_statuses(bench, late.job)}, "it is taken back", within=60)
        late.go.set()
        bench.ends(late.job)
        assert [late.job, late.fences[0]] not in bench.begins(late.job)


def _statuses(bench: Bench, job: str) -> list[str]:
    return [each.status for each in bench.app.attempts(job)]


def an_answer_later_than_the_lease_begins_nothing(bench: Bench) -> None:
    late = Late()
    with bench.proxy(late.fate) as api:
        bench.worker("expired", 1, api=api)
        late.job = bench.enqueue("expired", delay="1s")
        until(lambda: "lost" in _statuses(bench, late.job), "its worker is gone", within=60)
        late.go.set()
        bench.ends(late.job)
        assert [late.job, late.fences[0]] not in bench.begins(late.job)


def answers_that_get_lost_repeat_nothing(bench: Bench) -> None:
    lost: set[str] = set()

    def fate(path: str, body: str, said: str) -> str:
        if path in lost or '"jobs":[]' in said or (path.endswith("/heartbeat") and '"log"' not in body):
            return "forward"
        lost.add(path)
        return "lose"

    with bench.proxy(fate) as api:
        bench.worker("lossy", 2, api=api)
        job = bench.enqueue("lossy", 1_500)
        assert bench.ends(job) == ["succeeded"]
        assert bench.begins(job) == [[job, 1]]
        asked = {"/worker/jobs/claim", "/worker/heartbeat", "/worker/settle"}
        until(lambda: lost == asked, f"{asked} were lost", within=60)
        assert bench.app.attempts(job)[0].stdout_tail == "begun\n"


def a_worker_that_left_takes_nothing_more(bench: Bench) -> None:
    with bench.proxy(lambda *_: "forward") as api:
        worker = bench.worker("left", api=api)
        first = bench.enqueue("left")
        bench.ends(first)
        worker.send_signal(signal.SIGTERM)  # the server does not learn that its waiting claim is given up
        assert worker.wait(60) == 0
        job = bench.enqueue("left", delivery="at_most_once", max_attempts=1)
        bench.worker("left")
        assert bench.ends(job) == ["succeeded"]
        assert bench.begins(job) == [[job, 1]]


def what_is_taken_off_and_put_back_waits_again(bench: Bench) -> None:
    bench.worker(QUEUE, heartbeat=_SELDOM_S)
    bench.engine_worker(KIDS)
    parked_machines.what_is_taken_off_and_put_back_waits_again(bench.app, bench.begins, bench.file("go"))


CONTRACT = [
    a_failed_job_is_tried_again_until_it_succeeds,
    the_cars_of_a_train_run_one_after_another,
    a_dead_car_holds_its_train,
    the_jobs_of_a_partition_never_overlap,
    a_machine_runs_each_step_once,
    a_killed_worker_loses_its_jobs_to_another,
    a_worker_that_stops_gives_back_what_it_cannot_end,
    a_frozen_worker_writes_nothing_when_it_thaws,
    an_answer_later_than_two_heartbeats_begins_nothing,
    an_answer_later_than_the_lease_begins_nothing,
    answers_that_get_lost_repeat_nothing,
    a_worker_that_left_takes_nothing_more,
    what_is_taken_off_and_put_back_waits_again,
]
OF_THE_ENGINE = [what_is_taken_off_and_put_back_waits_again]
"""What our own worker is held to here, too; the rest is in tests/worker and tests/crash."""


def keep(served: Served, client: str, folder: Path) -> None:
    """Hold this client, or the engine, to the contract, all of it at the same time."""
    bench = Bench(served, client, folder)
    clauses = OF_THE_ENGINE if client == "engine" else CONTRACT
    try:
        for _ in range(0 if client == "engine" else 2):
            bench.worker("common", heartbeat=_SELDOM_S)
        with ThreadPoolExecutor(len(clauses)) as threads:
            for each in [threads.submit(clause, bench) for clause in clauses]:
                each.result()
    finally:
        bench.close()
