"""Admin pages for retrieval."""
