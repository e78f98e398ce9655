"""What people install: the sdist, the wheel built from it, and the client's, in a venv of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import headway_client
import pytest

import headway

ROOT = Path(__file__).parents[2]

PROGRAM = """
import headway, headway_client
from headway.store.postgres.engine import migrate

assert "{venv}" in headway.__file__ and "{venv}" in headway_client.__file__, headway.__file__
assert migrate.roles_sql() and len(migrate._functions()) > 100  # the SQL is in the wheel
app = headway.Headway("sqlite:///{venv}/work.db")

@app.job
def double(n: int) -> int:
    return 2 * n

job = double.enqueue(n=21)
app.run(until_idle=True)
print(headway.__version__, headway_client.__version__, app.result(job.id, timeout=0).value)
"""


def test_the_distributions_hold_what_they_need_and_run_in_a_bare_venv(tmp_path: Path) -> None:
    made = tmp_path / "dist"
    # each wheel is built from its sdist, so that is complete
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made)]
    with ThreadPoolExecutor() as pool:
        for said in pool.map(lambda folder: _run(*build, str(folder)), (ROOT, ROOT / "clients/python")):
            assert "warning" not in said.lower(), said

    version = headway.__version__
    assert sorted(path.name for path in made.iterdir()) == [
        f"headway_client-{version}-py3-none-any.whl",
        f"headway_client-{version}.tar.gz",
        f"headway_engine-{version}-py3-none-any.whl",
        f"headway_engine-{version}.tar.gz",
    ]
    for built, package, folder in (
        (f"headway_engine-{version}", "headway", ROOT / "src"),
        (f"headway_client-{version}", "headway_client", ROOT / "clients/python/src"),
    ):
        with ZipFile(made / f"{built}-py3-none-any.whl") as wheel:
            packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
            assert f"{built}.dist-info/licenses/LICENSE" in wheel.namelist()
        assert packed == _sources(folder, package)
        assert f"{package}/py.typed" in packed
        with tarfile.open(made / f"{built}.tar.gz") as sdist:
            names = {name.partition("/")[2] for name in sdist.getnames()}
        assert not [name for name in names if name.startswith(("tests", "bench", "clients", ".ci"))]

    bare = tmp_path / "venv"
    venv.create(bare)  # without pip
    python = str(bare / "bin/python")
    wheels = [str(path) for path in made.glob("*.whl")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    _run(*pip, "install", "--quiet", "--no-deps", "--no-index", *wheels)
    # the dependencies come from here; a path file in that folder, as of an editable install, is not followed
    (next(bare.glob("lib/*/site-packages")) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert _run(python, "-c", PROGRAM.format(venv=bare)) == f"{version} {version} 42\n"
    assert _run(str(bare / "bin/headway"), "--version").startswith(f"headway {version} (")


def test_every_distribution_has_the_same_version() -> None:
    assert headway_client.__version__ == headway.__version__


# `headway` on the public index is somebody else's package
_STRANGER = re.compile(
    r"(?<![\w./-])headway\[[a-z]"
    r"|\b(?:pip|uv|uvx|pipx|poetry|pdm|conda)\b[^\n`]*?\b(?:install|add|wheel|download|uvx|--with)\b[^\n`]*?(?<![\w./@-])headway(?![\w.:/-])"
)
_EXTRAS = re.compile(r"headway-engine\[([a-z,]+)\]")


def test_nobody_is_told_to_install_somebody_elses_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    hints = 0
    for name in _run("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        path = ROOT / name
        if path == Path(__file__) or not path.is_file() or path.suffix in (".png", ".gz", ".sqlite3", ".db"):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        assert not (found := _STRANGER.search(text)), f"{name}: {found[0]}"
        for names in _EXTRAS.findall(text):
            assert set(names.split(",")) <= extras.keys(), f"{name}: headway-engine[{names}]"
            hints += 1
    assert hints > 20


@pytest.mark.parametrize(
    "said",
    [
        "pip install headway",
        "pip install --upgrade headway",
        "pip install -U 'headway'",
        "pip install 'headway[server]' headway-client",
        "uv add headway",
        "uv tool install headway==0.5",
        "needs it: pip install \"\n  \"'headway[connectors]'",
    ],
)
def test_the_rule_finds_what_names_the_strangers_package(said: str) -> None:
    assert _STRANGER.search(said)
    ours = said.replace("'headway", "'headway-engine").replace(" headway", " headway-engine")
    assert not _STRANGER.search(ours.replace("headway-engine-client", "headway-client"))


def _sources(folder: Path, package: str) -> set[str]:
    listed = _run("git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", package)
    return {name for name in listed.splitlines() if (folder / name).exists()}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
