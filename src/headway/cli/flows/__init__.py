"""Commands about flows."""
