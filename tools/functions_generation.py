"""Counts the generations of PostgreSQL's functions: run it when a function changed, and commit what it writes.

A build refuses to install its functions over those of a later generation.
"""

from __future__ import annotations

from headway.store.postgres.engine.migrate import GENERATION, GENERATION_FILE, functions_hash


def main() -> None:
    _, _, recorded = GENERATION_FILE.read_text("utf-8").strip().partition(" ")
    if recorded != functions_hash():
        GENERATION_FILE.write_text(f"{GENERATION + 1} {functions_hash()}\n", "utf-8")


if __name__ == "__main__":
    main()
