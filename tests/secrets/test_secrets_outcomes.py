"""Outcomes, reports, output and tracebacks of one execution, redacted without a database."""

from __future__ import annotations

import pytest

from headway import Context, logs
from headway.define import Registry
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim, Report, Settlement
from headway.secrets import Vault
from headway.secrets.values import add_resolved
from headway.worker.error_text import error_text
from headway.worker.execution import Execution
from headway.worker.outcome_secrets import redacted
from tests.secrets.planted_secrets import BY_NAME, BY_REFERENCE

pytestmark = pytest.mark.usefixtures("planted")


def _claim() -> Claim:
    return Claim("j", DEFAULT_TENANT_ID, "k", "q", "{}", 1, 0, 0, 5, 5, 1, 1, None, "at_least_once", None, None, None)


def _nothing() -> None: ...


def _run(*known: str) -> Execution:
    run = Execution(_claim(), Registry().job(_nothing), "w", None, 0.0, Vault())
    run.ctx = run.handler.context(run.claim, tenant=None, worker_id="w", vault=run.vault)
    for name in known:
        run.ctx.secret(name)
    return run


def test_an_outcome_without_secrets_is_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run("PLANTED_PLAIN")
    for settlement in (
        Settlement(id="j", fence=1, status="succeeded", to="succeeded"),
        Settlement(id="j", fence=1, status="succeeded", to="succeeded", result='{"a":1}'),
        Settlement(id="j", fence=1, status="failed", to="dead", error="ValueError: no"),
    ):
        assert redacted(settlement, run) is settlement
    report = Report("j", 1, 0.5, "half", "tail")
    monkeypatch.setattr(Context, "take_report", lambda _: report)
    assert run.take_report() is report


def test_an_execution_gives_no_report_with_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run("PLANTED_PLAIN")
    assert run.take_report() is None
    report = Report("j", 1, 0.5, f"note {BY_REFERENCE}", f"tail {BY_REFERENCE}\n", 99)
    monkeypatch.setattr(Context, "take_report", lambda _: report)
    assert run.take_report() == Report("j", 1, 0.5, "note [redacted]", "tail [redacted]\n", 99)


def test_what_is_cut_of_an_error_leaves_no_piece_of_a_secret() -> None:
    add_resolved(BY_REFERENCE)
    for after in range(16_250, 16_400):
        error = ValueError("short")
        error.add_note("x" * 500 + BY_REFERENCE + "y" * after)
        assert "ference" not in error_text(error)
        assert BY_REFERENCE[:8] not in error_text(ValueError("x" * (after - 12_280) + BY_REFERENCE + "y" * 100))
    giant = ValueError("short")
    giant.add_note((BY_REFERENCE + "-") * 20_000)
    assert "ference" not in error_text(giant)


def test_output_tails_are_redacted() -> None:
    settlement = Settlement(
        id="j", fence=1, status="failed", to="dead", stdout_tail=f"a {BY_REFERENCE}", stderr_tail="password=abc\n"
    )
    clean = redacted(settlement, _run("PLANTED_PLAIN"))
    assert (clean.stdout_tail, clean.stderr_tail) == ("a [redacted]", "password=[redacted]\n")


def test_a_traceback_without_secrets_reaches_handlers_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    log = logs.get_logger("headway.test")
    try:
        raise ValueError("harmless")
    except ValueError:
        log.error("first", exc_info=True)
    try:
        raise ValueError(BY_NAME)
    except ValueError:
        log.error("second", exc_info=True)
    first, second = caplog.records
    assert first.exc_info is not None
    assert second.exc_info is None
    assert "ValueError: [redacted]" in (second.exc_text or "")
