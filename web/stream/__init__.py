"""The live stream of what changes, as server-sent events."""
