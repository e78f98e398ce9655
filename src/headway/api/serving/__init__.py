"""Running it as a server: its settings, its listener, and a watch over a silent database."""
