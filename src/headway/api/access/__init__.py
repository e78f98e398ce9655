"""Who asks, and what they may: keys, sessions, tokens of an issuer, rates."""
