"""REST operations on events, memories and agents."""
