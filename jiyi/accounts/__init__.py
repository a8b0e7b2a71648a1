"""API keys, signatures and passwords."""
