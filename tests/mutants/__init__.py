"""Lines that carry a promise, each with the way it is broken and the tests that notice: see tools/mutants.py."""
