"""Paths with `descriptor = true`: the program gets what was opened in the folder, whatever its links do meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.commands import CommandKind
from headway.errors import ConfigError
from tests.commands.command_scripts import run, script
from tests.worker_harness import WorkerHarness

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")

Declare = Callable[..., CommandKind]

# exchanges the link with one to another place, as somebody in the folder would at that moment, and reads or writes
_READ = """
import os, sys
link, other, given = sys.argv[1:]
os.symlink(other, link + ".new"); os.rename(link + ".new", link)
print(open(given).read())
"""


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    for folder in ("inside/one", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text(f"of {folder}")
    (tmp_path / "inside/link").symlink_to(tmp_path / "inside/one")
    (tmp_path / "inside/file").symlink_to(tmp_path / "inside/one/file")
    return tmp_path / "inside"


def _kind(declare: Declare, harness: WorkerHarness, inside: Path, link: str, outside: str, **param: Any) -> CommandKind:
    argv = script(_READ, str(inside / link), str(inside.parent / outside), "{path}")
    return declare(harness, argv=argv, params={"path": {"type": "path", "under": str(inside), **param}})


@pytest.mark.parametrize(
    ("link", "other", "path"), [("link", "outside", "link/file"), ("file", "outside/file", "file")]
)
def test_a_link_that_changes_afterwards_leads_nowhere_else(
    lite: WorkerHarness, declare: Declare, inside: Path, link: str, other: str, path: str
) -> None:
    kind = _kind(declare, lite, inside, link, other, descriptor=True)
    job, attempt = run(lite, kind, path=str(inside / path))
    assert (job.status, attempt.stdout_tail) == ("succeeded", "of inside/one\n")


def test_a_child_that_inherits_no_descriptors_reads_it_too(lite: WorkerHarness, declare: Declare, inside: Path) -> None:
    text = "import subprocess, sys; subprocess.run(['/bin/cat', sys.argv[1]], close_fds=True, check=True)"
    params = {"path": {"type": "path", "under": str(inside), "descriptor": True}}
    _, attempt = run(lite, declare(lite, argv=script(text, "{path}"), params=params), path=str(inside / "file"))
    assert attempt.stdout_tail == "of inside/one"


def test_a_new_file_is_made_in_its_folder(lite: WorkerHarness, declare: Declare, inside: Path) -> None:
    text = f"""
import os, sys
os.rename({str(inside / "one")!r}, {str(inside / "two")!r})
os.symlink({str(inside.parent / "outside")!r}, {str(inside / "one")!r})
open(sys.argv[1].partition("=")[2], "w").write("new")
"""
    params = {"path": {"type": "path", "under": str(inside), "descriptor": True}}
    job, _ = run(lite, declare(lite, argv=script(text, "--to={path}"), params=params), path=str(inside / "one/new"))
    assert job.status == "succeeded"
    assert (inside / "two/new").read_text() == "new"
    assert not (inside.parent / "outside/new").exists()


@pytest.mark.parametrize("target", ["outside/file", "outside", "outside/not there"])
def test_what_leads_out_is_refused(lite: WorkerHarness, declare: Declare, inside: Path, target: str) -> None:
    kind = _kind(declare, lite, inside, "link", "outside", descriptor=True)
    path = inside / "bad"
    path.symlink_to(inside.parent / target)
    job, _ = run(lite, kind, path=str(path))
    assert job.status == "dead"
    assert "leads out of" in job.error


def test_a_link_that_changes_after_the_first_look_is_refused(
    lite: WorkerHarness, declare: Declare, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = _kind(declare, lite, inside, "link", "outside", descriptor=True)
    look = type(kind.command.params["path"]).check_on_host

    def looked(param: Any, text: str) -> None:
        look(param, text)
        os.remove(inside / "file")
        (inside / "file").symlink_to(inside.parent / "outside/file")

    monkeypatch.setattr(type(kind.command.params["path"]), "check_on_host", looked)
    job, attempt = run(lite, kind, path=str(inside / "file"))
    assert (job.status, attempt.stdout_tail) == ("dead", None)
    assert "a path leads out of the folder that it must be in" in job.error


def test_a_descriptor_needs_a_folder(declare: Declare) -> None:
    with pytest.raises(ConfigError, match="descriptor"):
        declare(argv=["/bin/cat", "{a}"], params={"a": {"type": "path", "descriptor": True}})
