"""Who asks and what they may do: sessions, sign-in, API keys and rate limits."""
