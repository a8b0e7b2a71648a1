"""Agent indexes and everything else that retrieval reads."""
