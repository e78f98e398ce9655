"""Commands about kinds: definitions, and the programs of headway.toml."""
