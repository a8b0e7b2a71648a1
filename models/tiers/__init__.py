"""Quarantine, working memory and long-term knowledge."""
