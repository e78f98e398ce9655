"""Numbers of what happened: deltas that every change leaves, added up to minutes, hours and days."""
