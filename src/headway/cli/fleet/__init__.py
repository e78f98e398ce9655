"""Commands about queues and workers."""
