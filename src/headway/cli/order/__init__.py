"""Commands about order and exclusion: trains, groups, limits."""
