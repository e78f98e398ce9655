"""What starts jobs: definitions, templates, schedules, events, and their fires."""
