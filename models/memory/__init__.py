"""Events, memory nodes, agents, keywords, access times and the archive."""
