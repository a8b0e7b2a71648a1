"""Tasks that answer retrievals and keep the agent indexes warm."""
