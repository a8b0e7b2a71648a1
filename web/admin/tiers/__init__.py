"""Admin pages for the three tiers."""
