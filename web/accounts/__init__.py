"""Identity and rights of callers: sessions, sign-in, API keys and rate limits."""
