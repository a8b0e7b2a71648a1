"""Tasks of the three tiers."""
