"""Breaks the lines of tests/mutants/, one at a time, and runs the tests that should notice: `python tools/mutants.py`.

Each is broken in a copy of the repository. What is known of a line is kept in build/mutants.json and used again while
the line's file and its tests are the same, so that an interrupted run goes on where it was. Options: `--only NAME`
(a part of names is enough), `--again` to forget what is known, `--jobs 2`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests/mutants"
KNOWN = ROOT / "build/mutants.json"
# a test that hangs has noticed, but slowly: tests should fail instead
LONGEST_S = 120
NOTICED = ("failed", "hung")


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    line: str
    """The text that is replaced: it occurs once in the file."""
    becomes: str
    tests: tuple[str, ...]
    """Which tests should notice: `tests/store/jobs/test_claim.py::test_name`, on whatever stores they run."""

    def digest(self, root: Path = ROOT) -> str:
        texts = [repr(self), *((root / path).read_text("utf-8") for path in (self.file, *self.test_files()))]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def test_files(self) -> list[str]:
        return sorted({test.partition("::")[0] for test in self.tests})

    def apply(self, root: Path) -> str:
        """Gives the file as it was."""
        path = root / self.file
        text = path.read_text("utf-8")
        assert text.count(self.line) == 1, f"{self.name}: its line occurs {text.count(self.line)} times in {self.file}"
        _write(path, text.replace(self.line, self.becomes))
        return text


def mutants() -> list[Mutant]:
    lists = [tomllib.loads(path.read_text("utf-8"))["mutant"] for path in sorted(LISTS.glob("*.toml"))]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entries in lists for entry in entries]


class Copies:
    """Copies of the repository, one for each that works at the same time."""

    def __init__(self, count: int, folder: Path) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._sound: dict[tuple[str, ...], tuple[str, str]] = {}  # what tests say of the whole code
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
        for number in range(count):
            copy = folder / str(number)
            for name in names:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
            modules = Path("clients/typescript/node_modules")
            (copy / modules).mkdir(parents=True)
            for package in (ROOT / modules).glob("*"):
                if package.name != ".compiled":  # says what the client was compiled from, in this copy
                    (copy / modules / package.name).symlink_to(package)
            self._free.put(copy)

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """What the tests say of the whole code, and of the broken line."""
        copy = self._free.get()
        try:
            whole, said = self._sound.get(mutant.tests) or _run(copy, mutant)
            self._sound[mutant.tests] = whole, said
            if whole != "passed":
                return "unsound", f"its tests: {whole} on the whole code\n{said}"
            try:
                before = mutant.apply(copy)
            except AssertionError as error:
                return "unsound", str(error)
            try:
                return _run(copy, mutant)
            finally:
                _write(copy / mutant.file, before)
        finally:
            self._free.put(copy)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()  # it is trusted by second and size


def _run(copy: Path, mutant: Mutant) -> tuple[str, str]:
    env = os.environ | {"PYTHONPATH": f"{copy / 'src'}:{copy / 'clients/python/src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests]
    with tempfile.TemporaryFile("w+") as output:
        running = subprocess.Popen(
            command, cwd=copy, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = running.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            running.wait()
            return "hung", ""
        output.seek(0)
        said = output.read()
    return verdict(code, said), said


def verdict(code: int, said: str) -> str:
    """What pytest's exit code and last line mean. Tests that were skipped, such as without Node.js, say nothing."""
    if code == 0:
        return "skipped" if "skipped" in said.splitlines()[-1] else "passed"
    return "failed" if code == 1 else "could not run"


def _first_failure(said: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) \S*?::(\S+)", said, re.MULTILINE)
    return found[1] if found else ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    wanted = [mutant for mutant in mutants() if given.only in mutant.name]
    known: dict[str, Any] = json.loads(KNOWN.read_text()) if KNOWN.exists() and not given.again else {}
    todo = [each for each in wanted if known.get(each.name, {}).get("digest") != each.digest()]
    KNOWN.parent.mkdir(exist_ok=True)
    writing = threading.Lock()

    def judge(mutant: Mutant) -> None:
        began, digest = time.monotonic(), mutant.digest()
        verdict, said = copies.judge(mutant)
        entry = {"digest": digest, "verdict": verdict, "by": _first_failure(said)}
        entry["seconds"] = round(time.monotonic() - began, 1)
        if verdict not in NOTICED:
            entry |= {"digest": "", "said": said[-3000:]}
        with writing:
            known[mutant.name] = entry
            KNOWN.write_text(json.dumps(known, indent=1))
            _say(_row(mutant, entry))

    with tempfile.TemporaryDirectory(prefix="headway-mutants-") as folder:
        if todo:
            copies = Copies(min(given.jobs, len(todo)), Path(folder))
            with ThreadPoolExecutor(given.jobs) as pool:
                list(pool.map(judge, todo))

    alive = [each for each in wanted if known[each.name]["verdict"] not in NOTICED]
    _say(f"\n{'line':<50}{'tests':<14}{'seconds':>8}  first to notice")
    for each in wanted:
        _say(_row(each, known[each.name]))
    for each in alive:
        _say(f"\n{each.name}: {known[each.name]['verdict']}\n{known[each.name]['said']}")
    _say(f"\n{len(wanted)} lines broken, {len(alive)} not noticed")
    return len(alive) > 0


def _row(mutant: Mutant, entry: dict[str, Any]) -> str:
    verdict = "SURVIVED" if entry["verdict"] == "passed" else entry["verdict"]
    return f"{mutant.name:<50}{verdict:<14}{entry['seconds']:>8}  {entry['by']}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
