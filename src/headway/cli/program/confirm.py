"""The one question that a command may ask: whether to go on."""

from __future__ import annotations

import sys

import click

from headway.cli.program.failure import WRONG, Refused


def confirm(what: str, otherwise: str = "") -> None:
    """Ask on a terminal; elsewhere refuse, naming the flag that answers it (`otherwise` names another way)."""
    if not sys.stdin.isatty():
        raise Refused(f"this would {what}, and there is no terminal to ask: add --yes{otherwise}", WRONG)
    click.confirm(f"{what}?", abort=True, err=True)
