"""Jobs of several steps: their turns, signals and children."""
