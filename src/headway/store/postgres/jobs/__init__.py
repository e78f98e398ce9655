"""A job's life: enqueue, claim, settle, and what operators do to it."""
