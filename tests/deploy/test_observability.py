"""deploy/observability: every metric in the rules and on the dashboard exists, with the labels that are asked for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.cli.root import main
from headway.telemetry.metrics import BY_NAME, METRICS

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
RULES = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
ADDED_BY_PROMETHEUS = {"instance", "job", "le"}


def panels() -> Iterator[tuple[str, str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def names(expr: str) -> set[str]:
    """The metrics of an expression; fails for one that does not exist."""
    found = set()
    for name in re.findall(r"\bheadway_\w+", expr):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        known = base if BY_NAME.get(base) is not None and BY_NAME[base].type == "histogram" else name
        assert known in BY_NAME, f"{expr}: there is no metric {name}"
        assert (BY_NAME[known].type == "histogram") == (name != known), f"{name} has no series of this name"
        found.add(known)
    assert found, f"{expr} is about no metric of ours"
    return found


def check(expr: str, shown: str) -> set[str]:
    found = names(expr)
    labels = {label for name in found for label in BY_NAME[name].labels} | ADDED_BY_PROMETHEUS
    asked = [label.strip() for part in re.findall(r"by \(([^)]*)\)", expr) for label in part.split(",")]
    asked += re.findall(r"[{,]\s*(\w+)\s*[=!]~?", expr)
    asked += re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown)
    assert set(asked) <= labels, f"{expr} asks for labels that its metrics do not have"
    for opening, closing in ("()", "{}", "[]"):
        assert expr.count(opening) == expr.count(closing), f"{expr} is not balanced"
    for name in found:
        if BY_NAME[name].type != "gauge":
            assert "rate(" in expr, f"{expr}: {name} only ever grows"
    return found


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_names_what_exists_and_says_what_to_do(rule: dict[str, Any]) -> None:
    texts = rule["annotations"]
    assert texts.keys() == {"summary", "action"}
    check(rule["expr"], texts["summary"])
    assert rule["labels"]["severity"] in ("page", "warn")
    for words in re.findall(r"headway ((?:[a-z]+ ?)+)", texts["action"]):
        command: Any = main
        for word in words.split():
            if not hasattr(command, "get_command"):
                break  # an argument, or the sentence goes on
            command = command.get_command(None, word)
            assert command is not None, f"{rule['alert']}: headway has no command {words}"


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    shown = set().union(*(check(expr, legend) for _, expr, legend in panels()))
    assert shown == {metric.name for metric in METRICS}
    assert names(DASHBOARD["templating"]["list"][1]["query"]) == {"headway_jobs"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_promtool_accepts_the_files_where_it_can_be_had(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        with capsys.disabled():
            print("\npromtool is not installed (apt install prometheus): the rules got only the tests' own checks")
        return
    for file in FOLDER.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "key").write_text("key")
    config = (tmp_path / "prometheus.yml").read_text().replace("/etc/prometheus/headway.key", str(tmp_path / "key"))
    (tmp_path / "prometheus.yml").write_text(config)
    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout
    (tmp_path / "unit.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": EXPRESSIONS}))
    done = subprocess.run(
        [promtool, "test", "rules", "unit.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _gives(alert: str, series: Mapping[str, int | str], sample: str | None, value: float = 0.0) -> dict[str, Any]:
    """With these values, of two processes that are scraped, the rule's expression gives this one sample, or none."""
    (expr,) = (rule["expr"] for rule in RULES if rule["alert"] == alert)
    scraped = {name.replace("I", f'instance="{n}"'): value for n in "ab" for name, value in series.items()}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{value}x60"} for name, value in scraped.items()],
        "promql_expr_test": [
            {
                "expr": expr,
                "eval_time": "30m",
                "exp_samples": [] if sample is None else [{"labels": sample, "value": value}],
            }
        ],
    }


_DEAD = 'headway_recent_jobs_per_second{I,tenant="acme",what="dead"}'
_STARTED = 'headway_recent_jobs_per_second{I,tenant="acme",what="started"}'
_RETRIED = 'headway_recent_jobs_per_second{I,tenant="acme",what="retried"}'
_QUEUED = 'headway_jobs{I,tenant="acme",queue="mail",status="queued"}'
_ERROR = 'headway_errors{I,tenant="acme",kind="mail",fingerprint="3f9c"}'
EXPRESSIONS = [
    _gives("HeadwayDatabaseDown", {"headway_up{I}": 0}, "{}", 0),
    _gives("HeadwayDatabaseDown", {"headway_up{I}": 1}, None),
    _gives("HeadwayNoWorkers", {"headway_workers{I}": 0, _QUEUED: 5}, "{}", 0),
    _gives("HeadwayNoWorkers", {"headway_workers{I}": 2, _QUEUED: 5}, None),
    _gives("HeadwayNoWorkers", {"headway_workers{I}": 0, _QUEUED: 0}, None),
    _gives("HeadwayQueueWaits", {'headway_queue_oldest_seconds{I,queue="mail"}': 1_000}, '{queue="mail"}', 1_000),
    _gives("HeadwayDeadJobs", {_DEAD: 1}, '{tenant="acme"}', 300),
    _gives("HeadwayDeadJobs", {_DEAD: 0}, None),
    _gives("HeadwayNewError", {'headway_new_errors{I,tenant="acme"}': 2}, '{tenant="acme"}', 2),
    _gives("HeadwayNewError", {'headway_new_errors{I,tenant="acme"}': 0}, None),
    _gives("HeadwayErrorBurst", {_ERROR: "0+6"}, '{fingerprint="3f9c", kind="mail", tenant="acme"}', 60),
    _gives("HeadwayErrorBurst", {_ERROR: "500+1"}, None),
    _gives("HeadwayManyRetries", {_STARTED: 10, _RETRIED: 3}, '{tenant="acme"}', 3),
    _gives("HeadwayManyRetries", {_STARTED: 10, _RETRIED: 1}, None),
    _gives("HeadwayOutcomesUnwritten", {"headway_worker_unwritten_outcomes{I}": 5}, None),
]
