"""`manage.py headway …`: Headway's command line on the app and the database of this project."""

from __future__ import annotations

import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

SPEC = "headway.contrib.django:app"


class Command(BaseCommand):
    help = "Run a command of Headway: worker, jobs, queues, doctor, …; headway --help lists them."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """As typed: `manage.py headway --help` is Headway's help, not Django's."""
        _run(argv[2:])

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *_: Any, arguments: list[str], **options: Any) -> None:  # noqa: ARG002
        """For `call_command("headway", "worker", "--until-idle")`."""
        try:
            _run(arguments)
        except SystemExit as end:
            if end.code:
                raise


def _run(arguments: list[str]) -> None:
    from headway.cli import main

    before = sys.argv
    # what starts processes of its own repeats these
    sys.argv = ["headway", "--app", SPEC, *arguments]
    try:
        main(prog_name="headway")
    finally:
        sys.argv = before
