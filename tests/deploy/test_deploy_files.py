"""The files of deploy/: linted by their own tools, their commands parsed by the command line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
import yaml

from headway.cli import main
from headway.model.duration import to_ms

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = DEPLOY / "docker/compose.yaml"
DOCKERFILE = DEPLOY / "docker/Dockerfile"
STOPPING_S = 9  # what a stop takes beside the grace: docs/how-to/deploy-workers.md


def test_every_command_is_one_that_headway_has() -> None:
    found = list(_commands())
    assert {words[0] for words in found} >= {"migrate", "serve", "worker", "queues"}
    for words in found:
        _parse(words)
    for wrong in (["worker", "shop:app", "--graze", "30s"], ["queues", "lst"], ["serve", "--port", "x"]):
        with pytest.raises(click.UsageError):
            _parse(wrong)


def test_whoever_stops_a_worker_waits_longer_than_its_grace() -> None:
    found = []
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        if name == "worker":
            found.append((_grace(service["command"]), to_ms(service["stop_grace_period"])))
    for manifest in _manifests():
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            waited = pod["terminationGracePeriodSeconds"] * 1_000
            container = pod["containers"][0]
            waited -= container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0) * 1_000
            found.append((_grace(container["args"]), waited))
    for unit in UNITS:
        text = unit.read_text()
        command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
        stop = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
        assert command
        assert stop
        found.append((_grace(shlex.split(command[1])), int(stop[1]) * 1_000))
    assert len(found) == 5
    assert all(waited >= grace + STOPPING_S * 1_000 for grace, waited in found), found


def test_yaml_and_the_dockerfile_pass_their_linters() -> None:
    from yamllint import linter
    from yamllint.config import YamlLintConfig

    rules = YamlLintConfig(
        "extends: default\nrules:\n  line-length: {max: 120}\n  comments: {min-spaces-from-content: 1}"
    )
    for path in (COMPOSE, *MANIFESTS):
        assert [str(problem) for problem in linter.run(path.read_text(), rules)] == []
    hadolint = Path(sys.executable).with_name("hadolint")
    if hadolint.exists():
        done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_build_gets_what_the_dockerfile_copies_and_nothing_else() -> None:
    root = DEPLOY.parent
    copied = [
        path
        for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE.read_text(), re.MULTILINE)
        for path in words.split()[:-1]
    ]
    assert "src" in copied
    assert [path for path in copied if not (root / path).exists()] == []
    ignored, *sent = [line for line in (root / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert ignored == "*"
    folders = {line[1:] for line in sent if line[0] == "!"}
    assert all(folders & {path, str(Path(path).parent)} for path in copied), "an ignored file cannot be copied"
    assert all(any(path.startswith(folder) for path in copied) for folder in folders), "nothing else is sent"


def test_manifests_fit_the_schemas_of_kubernetes() -> None:
    import kubernetes_validate

    kinds = set()
    for manifest in _manifests():
        kinds.add(manifest["kind"])
        if not manifest["apiVersion"].startswith("keda.sh"):
            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    assert kinds == {"Job", "Deployment", "Service", "PodDisruptionBudget", "ScaledObject", "TriggerAuthentication"}
    broken = {**_manifests()[0], "spec": {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_pods_and_containers_have_no_rights_that_they_do_not_need() -> None:
    for manifest in _manifests():
        if manifest["kind"] in ("Deployment", "Job"):
            pod = manifest["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"]
            assert pod["automountServiceAccountToken"] is False
            own = pod["containers"][0]["securityContext"]
            assert own["readOnlyRootFilesystem"]
            assert (own["allowPrivilegeEscalation"], own["capabilities"]) == (False, {"drop": ["ALL"]})
    assert "USER 10001" in DOCKERFILE.read_text()


def test_the_scaler_counts_what_the_metrics_say_is_queued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from headway import Headway

    promtool = shutil.which("promtool")
    if promtool is None:
        with capsys.disabled():
            print("\npromtool is not installed (apt install prometheus): the scaler's query was not evaluated")
        return
    app = Headway(f"sqlite:///{tmp_path / 'work.db'}", strict_kinds=False)
    scraped = [(_series(app), 0)]
    for queue in ("mail", "default", "other"):
        app.enqueue("welcome", queue=queue, tenant=f"of-{queue}")
    app.enqueue("welcome", delay="1h")
    del app.__dict__["_exporter"]  # which keeps its numbers for some seconds
    scraped.append((_series(app), 2))
    app.close()
    scraped.append(({"headway_up": 0}, None))  # all that there is while the database is away: KEDA changes nothing
    tests = [
        {
            "interval": "1m",
            # two processes that are scraped say the same
            "input_series": [
                {"series": _labeled(name, instance=instance), "values": f"{value}x9"}
                for name, value in series.items()
                for instance in "ab"
            ],
            "promql_expr_test": [
                {
                    "expr": _scaler("prometheus")["query"],
                    "eval_time": "5m",
                    "exp_samples": [] if expected is None else [{"labels": "{}", "value": expected}],
                }
            ],
        }
        for series, expected in scraped
    ]
    (tmp_path / "unit.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", tmp_path / "unit.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scaler_without_prometheus_counts_what_waits(postgres_migrated_url: str) -> None:
    from headway import Headway

    query = _scaler("postgresql")["query"]
    app = Headway(postgres_migrated_url, strict_kinds=False)
    for queue in ("mail", "default", "other"):
        app.enqueue("welcome", queue=queue)
    app.enqueue("welcome", delay="1h")
    app.close()
    with psycopg.connect(postgres_migrated_url) as conn:
        assert conn.execute(query).fetchone() == (2,)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_pass_systemds_own_check(tmp_path: Path) -> None:
    for unit in UNITS:
        # it looks whether the program is there
        text = re.sub(r"/srv/%i/\.venv/bin/headway", str(Path(sys.executable).with_name("headway")), unit.read_text())
        (tmp_path / unit.name.replace("@", "@shop")).write_text(text.replace("User=headway\nGroup=headway\n", ""))
    made = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(["systemd-analyze", "verify", *made], capture_output=True, text=True)
    # of other units of this machine it may complain
    assert not [line for line in done.stderr.splitlines() if "headway-" in line], done.stderr


def _manifests() -> list[dict[str, Any]]:
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]


def _scaler(kind: str) -> dict[str, str]:
    triggers = [each for manifest in _manifests() for each in manifest["spec"].get("triggers", ())]
    (found,) = (trigger["metadata"] for trigger in triggers if trigger["type"] == kind)
    return found


def _series(app: Any) -> dict[str, float]:
    """What Prometheus would have of this app."""
    lines = [line for line in app.metrics().decode().splitlines() if line.startswith("headway_")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def _labeled(series: str, **labels: str) -> str:
    name, _, rest = series.rstrip("}").partition("{")
    more = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{rest}{',' if rest else ''}{more}}}"


def _commands() -> Iterator[list[str]]:
    """The arguments of every `headway …` in these files."""
    docker = DOCKERFILE.read_text()
    for words in re.findall(r"^\s*CMD (\[.*\])$", docker, re.MULTILINE):
        found = json.loads(words)
        yield found[1:] if found[0] == "headway" else found
    for service in yaml.safe_load(COMPOSE.read_text())["services"].values():
        if "command" in service:
            yield service["command"]
    for words in re.findall(r"run --rm \w+ (keys .*)$", COMPOSE.read_text(), re.MULTILINE):
        yield shlex.split(words)
    for manifest in _manifests():
        if manifest["kind"] in ("Deployment", "Job"):
            container = manifest["spec"]["template"]["spec"]["containers"][0]
            yield container["args"]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if "exec" in container.get(probe, {}):
                    yield container[probe]["exec"]["command"][1:]
    for unit in UNITS:
        for command in re.findall(r"^ExecStart(?:Pre)?=(.*)$", unit.read_text(), re.MULTILINE):
            yield shlex.split(command.replace("%i", "shop"))[1:]


def _parse(words: list[str]) -> None:
    command: click.Command = main
    name, args, context = "headway", list(words), None
    while True:
        context = command.make_context(name, args, parent=context)
        if not isinstance(command, click.Group):
            return
        found, sub, args = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found
        assert sub
        name, command = found, sub


def _grace(words: list[str]) -> int:
    return to_ms(words[words.index("--grace") + 1]) if "--grace" in words else 30_000
