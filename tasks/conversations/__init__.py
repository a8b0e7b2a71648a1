"""Tasks of conversations: extraction, summaries, injection."""
