"""Conversations: what is stored of them beside the memories, and what can be done with it."""
