"""What every command is made of: click classes, the invocation, parameters, output, failures."""
