"""What every chapter stands on: connections, errors, the schema and the reading of rows."""
