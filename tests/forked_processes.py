"""Runs the tests in several processes that are forked from the one that collected them: `pytest --processes 4`.

Processes that start from nothing, as pytest-xdist's do, import and collect ten thousand tests each, which takes every
one of them 7 s of CPU, and the process that gives them their tests takes 18 s more. These inherit the collected tests,
and take the next few from a pipe that was filled at the beginning.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

_AT_A_TIME = 150  # tests of a module, which share what it sets up; few modules have more
_LENGTH = 4  # bytes of a number in the pipe; reads of one are never torn

PROCESS = "HEADWAY_TEST_PROCESS"
"""The variable that is set in the processes that run tests beside others."""


def add_option(parser: pytest.Parser) -> None:
    parser.getgroup("headway").addoption("--processes", type=int, default=1, help="how many processes run the tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("--processes")
    if count <= 1 or session.testsfailed or session.config.option.collectonly or not hasattr(os, "fork"):
        return None
    _Run(session).run(count)
    return True


class _Run:
    """The process that started the others: prints what they report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._pieces = list(_pieces(session.items))
        self._left = {item.nodeid for item in session.items}
        self._queue, filler = os.pipe()
        os.set_blocking(filler, False)  # 16,000 pieces fit; more would raise instead of waiting forever
        os.write(filler, b"".join(number.to_bytes(_LENGTH, "big") for number in range(len(self._pieces))))
        os.close(filler)

    def run(self, count: int) -> None:
        processes = [self._forked(number) for number in range(count)]
        try:
            self._listen({process.reports: process for process in processes})
        finally:
            self._take_the_rest()
            for process in processes:
                os.waitpid(process.pid, 0)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._left:
            raise self._session.Interrupted(f"{len(self._left)} tests were not run, for their process died")

    def _forked(self, number: int) -> _Process:
        reports, sender = Pipe(duplex=False)
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # the same for all
        pid = os.fork()
        if pid == 0:
            try:
                reports.close()
                _Worker(self._session, number, sender).work(self._queue, self._pieces)
                atexit._run_exitfuncs()
            except BaseException:  # whatever it is, the first process misses the outcome of a test, and says so
                self._session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(0)  # nothing of what the first process does at its end
        sender.close()
        return _Process(pid, reports)

    def _listen(self, processes: dict[Connection, _Process]) -> None:
        while processes:
            for ready in wait(list(processes)):
                assert isinstance(ready, Connection)
                process = processes[ready]
                try:
                    reports, process.runs = ready.recv()
                except EOFError:
                    del processes[ready]
                    if process.runs is not None:
                        self._show(_died(process.runs))
                    continue
                for report in reports:
                    self._show(report)
            if self._session.shouldfail:
                self._take_the_rest()

    def _show(self, data: dict[str, Any]) -> None:
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            self._left.discard(report.nodeid)
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def _take_the_rest(self) -> None:
        while os.read(self._queue, 65_536):
            pass


@dataclass
class _Process:
    pid: int
    reports: Connection
    runs: str | None = None  # the test that it is in


class _Worker:
    """A process that runs tests; also a plugin, which sends what is reported of them."""

    def __init__(self, session: pytest.Session, number: int, sender: Connection) -> None:
        self._session = session
        self._sender = sender
        self._reports: list[dict[str, Any]] = []
        config = session.config
        os.environ[PROCESS] = str(number)
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(self)
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all of them inherited
        capture.start_global_capturing()
        temporary = config._tmp_path_factory  # type: ignore[attr-defined]
        temporary._basetemp = temporary.getbasetemp() / f"process-{number}"
        temporary._basetemp.mkdir()

    def work(self, queue: int, pieces: list[list[pytest.Item]]) -> None:
        while number := os.read(queue, _LENGTH):
            piece = pieces[int.from_bytes(number, "big")]
            # after the last one only the fixtures of the session stay
            for item, following in zip(piece, [*piece[1:], self._session], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self._session._setupstate.teardown_exact(None)
        self._send(None)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed:
            report.sections.clear()
        config = self._session.config
        self._reports.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    def _send(self, nodeid: str | None) -> None:
        """What was reported since the last time, and the test that begins."""
        self._sender.send((self._reports, nodeid))
        self._reports = []


def _pieces(items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
    for _, tests in groupby(items, key=lambda item: item.path):
        module = list(tests)
        for first in range(0, len(module), _AT_A_TIME):
            yield module[first : first + _AT_A_TIME]


def _died(nodeid: str) -> dict[str, Any]:
    path, _, name = nodeid.partition("::")
    report = pytest.TestReport(nodeid, (path, None, name), {}, "failed", "the process that ran it died", "teardown")
    data: dict[str, Any] = report._to_json()
    return {**data, "$report_type": "TestReport"}
