"""Who goes when: trains, joins, groups, limits, reservations, and what a job's end sets free."""
