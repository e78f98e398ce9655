"""Asks for confirmation."""

from __future__ import annotations

import sys

import click

from headway.cli.program.failure import WRONG, Refused


def confirm(what: str, otherwise: str = "") -> None:
    """Ask on a terminal; elsewhere refuse and name the flag that skips the question (`otherwise`: another way out)."""
    if not sys.stdin.isatty():
        raise Refused(f"this would {what}, and there is no terminal to ask: add --yes{otherwise}", WRONG)
    click.confirm(f"{what}?", abort=True, err=True)
