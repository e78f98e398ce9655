"""What all commands share: click classes, the invocation, parameters, output, failures."""
