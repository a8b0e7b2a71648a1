"""Everything stored: tables, queries, Redis keys, units of work."""
