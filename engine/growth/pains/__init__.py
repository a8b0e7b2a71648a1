"""What hurts the people an agent works for: noticed, merged, answered with a proposal."""
