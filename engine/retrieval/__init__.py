"""Retrieval as pure functions of arrays: relevance, scoring and ranking."""
