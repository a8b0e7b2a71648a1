"""Commands for API keys and people."""
