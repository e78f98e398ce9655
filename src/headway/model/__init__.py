"""Values and rules: pure, without I/O."""
