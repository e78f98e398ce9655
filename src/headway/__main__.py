"""`headway`, and `python -m headway`: the command line."""

import sys


def main() -> None:
    """Run it; Ctrl-C ends it without a traceback, even during the imports."""
    try:
        from headway.cli import main as run

        run(prog_name="headway")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
