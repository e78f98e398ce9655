"""Fuzzes a real server with schemathesis: every check, every phase. Run by `make fuzz`.

python -m tests.api.document.fuzz [--examples 150] [--url postgresql://…] [--only "^/api/v1/groups"]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from headway import Headway

CONFIG = """
# else nearly every request is about a tenant or job that does not exist
[parameters]
"header.Headway-Tenant" = "default"

[[operations]]
include-path-regex = "^/api/v1/jobs/[{{]id[}}]"
parameters = {{ "path.id" = "{job_id}" }}

# not the tenant that all other requests are about: while it is suspended, every write is 403
[[operations]]
include-path-regex = "^/api/v1/admin/tenants/[{{]id[}}]"
parameters = {{ "path.id" = "spare" }}

[checks.positive_data_acceptance]
# what the schema allows may still name a kind, job or tenant that is not there, or be refused for its meaning
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 412, 413, 422, 429]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 412, 413, 415, 422, 428, 429]

[checks.missing_required_header]
expected-statuses = [400, 401, 403, 404, 422]
"""
# endless by design
STREAMS = ["/api/v1/jobs/{id}/stream"]


def prepare(url: str) -> tuple[str, str]:
    """A database with kinds, jobs and a key that may do everything; gives the key, and the id of a job."""
    app = Headway(url)

    @app.job(queue="mail")
    async def welcome(user_id: int) -> str:
        return f"hello {user_id}"

    @app.job
    async def report() -> None: ...

    app.migrate()
    for number in range(5):
        welcome.enqueue(number)
    app.run(until_idle=True)
    app.create_tenant("spare")
    key = app.create_api_key("fuzz", "superadmin").text
    job_id = app.enqueue("report", delay="1h").id
    app.close()
    return key, job_id


def run(
    url: str, *, examples: int, phases: str, seed: int | None = None, only: str | None = None
) -> tuple[int, Counter[int], str]:
    """Start a server, fuzz it; gives schemathesis' exit code, how many answers had each status, and what it said."""
    key, job_id = prepare(url)
    with tempfile.TemporaryDirectory() as folder:
        config, report = Path(folder, "schemathesis.toml"), Path(folder, "report.ndjson")
        config.write_text(CONFIG.format(job_id=job_id))
        serve = [sys.executable, "-m", "headway", "--url", url, "--log-format", "json", "serve", "--port", "0"]
        log = Path(folder, "log")
        environment = {**os.environ, "HEADWAY_SERVER_RATE": "1000000/s"}
        with log.open("w") as file:
            server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=file, env=environment)
        try:
            address = _address(log)
            command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
            command += [f"{address}/api/v1/openapi.json", "--checks", "all", "--phases", phases, "-n", str(examples)]
            command += ["-H", f"Authorization: Bearer {key}", "--suppress-health-check", "all", "--no-shrink"]
            command += [
                "--request-timeout",
                "40",
                "--workers",
                "1",  # with four threads a SystemError of the AST was seen once, on CPython 3.11
                "--continue-on-failure",
                "--generation-database",
                "none",
            ]
            command += ["--report", "ndjson", "--report-ndjson-path", str(report), "--warnings", "off"]
            command += [] if seed is None else ["--seed", str(seed)]
            command += [] if only is None else ["--include-path-regex", only]
            for path in STREAMS:
                command += ["--exclude-path", path]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
        finally:
            server.terminate()
            server.wait(30)
        return done.returncode, statuses(report), done.stdout


def _address(log: Path) -> str:
    """Where the server listens, as it says when it does."""
    while True:
        for line in log.read_text().splitlines():
            if '"serving"' in line:
                return str(json.loads(line)["url"])
        time.sleep(0.05)


def statuses(report: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for line in report.read_text("utf-8").splitlines():
        _count(json.loads(line), found)
    return found


def _count(value: object, found: Counter[int]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("status_code"), int):
            found[value["status_code"]] += 1
        for each in value.values():
            _count(each, found)
    elif isinstance(value, list):
        for each in value:
            _count(each, found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=150)
    parser.add_argument("--url")
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    parser.add_argument("--only", help="a regular expression: only paths that match it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/fuzz.db"
        code, found, said = run(url, examples=given.examples, phases=given.phases, only=given.only)
    print(said)
    print(f"{sum(found.values()):,} answers: {dict(sorted(found.items()))}")
    sys.exit(code)


if __name__ == "__main__":
    main()
