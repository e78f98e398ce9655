"""How much a run does: small and always the same in `make test`, everything and by a new seed in `make test-all`."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

FIXED_SEED = 7


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("headway")
    group.addoption("--full", action="store_true", help="walks of full size, by a new seed, and every time zone")
    group.addoption("--seed", type=int, help="go the random walks of the run that printed this seed")


full = False
"""Whether this is a run of full size; known before the tests are imported."""


def choose(config: pytest.Config) -> None:
    """Before the processes start, so that all of them have the same seed."""
    global full
    full = config.option.full
    if config.option.seed is None:
        config.option.seed = random.randrange(2**32) if full else FIXED_SEED
    # no deadline and no complaint about slow examples: how busy the machine is proves nothing
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "headway",
        max_examples=300 if full else 50,
        deadline=None,
        database=None,
        derandomize=not full,
        suppress_health_check=slow,
    )
    settings.load_profile("headway")


def header(config: pytest.Config) -> str:
    return f"random walks: --seed {config.option.seed}" + (" --full" if config.option.full else "")


class RandomWalk:
    """Runs a state machine: `random_walk(machine, examples=10)`."""

    def __init__(self, config: pytest.Config) -> None:
        self.full: bool = config.option.full
        self.seed: int = config.option.seed

    def __call__(self, machine: Callable[[], RuleBasedStateMachine], *, examples: int, full: int) -> None:
        walk = settings(
            max_examples=full if self.full else examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
        )
        run_state_machine_as_test(seed(self.seed)(machine), settings=walk)

    def chance(self, name: object) -> random.Random:
        """Random numbers for a walk by hand, other ones for each name."""
        return random.Random(f"{self.seed} {name}")
