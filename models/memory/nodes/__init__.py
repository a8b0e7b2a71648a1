"""Memory nodes after they are stored: embedding and lists, access times, what an LLM adds, the archive."""
