"""Workers, queues and tenants."""
