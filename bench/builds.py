"""`python -m bench.builds OTHER`: this build beside another checkout of the project, in turns on the same server: plain
jobs and machines' steps a second, on both stores, and the median of the rounds' ratios."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench.servers import Postgres, sites

HERE = Path(__file__).parents[1]

_ROUND = """
import sys
from bench import drain, machines
from bench.servers import sites

store, jobs = sys.argv[1], int(sys.argv[2])
with sites([store]) as (site,):
    print("plain jobs a second", drain.drain(site.create(), jobs=jobs, workers=1), sep=":")
    site.settle()
    print("machines' steps a second", machines.steps(site.create(), jobs // 10), sep=":")
    site.settle()
"""
"""What a checkout measures of itself, with its own schema."""


def measure(checkout: Path, store: str, jobs: int) -> dict[str, float]:
    paths = os.pathsep.join([str(checkout / "src"), str(checkout)])
    command = [sys.executable, "-c", _ROUND, store, str(jobs)]
    env = {**os.environ, "PYTHONPATH": paths}
    answer = subprocess.run(command, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(figure) for name, _, figure in (line.partition(":") for line in answer.stdout.splitlines())}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("other", type=Path, help="a checkout of another commit, as git worktree makes one")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--jobs", type=int, default=50_000)
    given = options.parse_args()
    builds = {"this": HERE, "other": given.other.resolve()}
    with sites(["sqlite", "postgres"]) as opened:
        for site in opened:
            if isinstance(site, Postgres):
                os.environ["HEADWAY_BENCH_URL"] = site.server
            found: dict[str, dict[str, list[float]]] = {name: {} for name in builds}
            for n in range(given.rounds):
                # whoever is first pays for what the last left behind, so that they take turns at it
                for name in sorted(builds, reverse=bool(n % 2)):
                    for what, figure in measure(builds[name], site.store, given.jobs).items():
                        found[name].setdefault(what, []).append(figure)
            print(f"\n{site.about}; medians of {given.rounds} rounds in turns")
            for what, figures in found["this"].items():
                others = found["other"][what]
                ratio = median(a / b for a, b in zip(figures, others, strict=True))
                print(
                    f"  {what:30} {median(figures):10,.0f}, other {median(others):10,.0f}, ratio {ratio:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
