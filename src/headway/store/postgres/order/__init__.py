"""What decides when a job may start: trains, after, groups, limits, fairness, reservations."""
