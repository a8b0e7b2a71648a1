"""What programs around Jiyi speak: items that they keep, and tools for their LLMs."""
