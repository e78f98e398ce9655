"""What makes jobs by itself: schedules, events, templates and definitions."""
