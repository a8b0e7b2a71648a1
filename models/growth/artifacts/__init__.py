"""Patterns, and the skills and workflows that come of them, with their trust, in the database."""
