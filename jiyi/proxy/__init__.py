"""A proxy in front of an LLM's API that remembers what passes through it (``jiyi proxy``)."""
