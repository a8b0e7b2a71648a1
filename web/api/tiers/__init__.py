"""REST operations on the three tiers."""
