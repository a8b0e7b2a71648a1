"""The three tiers: screening, promotion, merging of answers, the workflow node and middleware."""
