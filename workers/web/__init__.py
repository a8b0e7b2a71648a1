"""The web as a process: its HTTP server, and what it checks before it listens."""
