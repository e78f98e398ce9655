"""Commands about what starts jobs by itself: schedules, triggers, events, templates."""
