"""Conversations of a chat program: what is remembered of them, and what goes before the next answer."""
