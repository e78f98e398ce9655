"""Runs a command in several processes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from headway.cli.program.invocation import Invocation


def run_several(processes: int, cli: Invocation, option: str, *, fds: Mapping[str, int] | None = None) -> NoReturn:
    """Run the same command, without the option that says how many, in this many processes."""
    from headway.worker import supervise_processes

    arguments = _without(option, sys.argv[1:])
    flags = ["--config", cli.config] if cli.config else []
    code = supervise_processes(["-m", "headway", *flags, *arguments], processes, fds=fds)
    raise click.exceptions.Exit(code if code >= 0 else 128 - code)


def _without(option: str, arguments: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == option:
            skip = True
        elif not argument.startswith(f"{option}="):
            kept.append(argument)
    return kept
