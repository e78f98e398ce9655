"""The command line: `headway`, a file for each noun."""

from headway.cli.root import main

__all__ = ["main"]
