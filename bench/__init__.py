"""The benchmark: `make bench`. Every speed in the README comes from here."""
