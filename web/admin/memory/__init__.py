"""Admin pages for memories, agents, events and the archive."""
