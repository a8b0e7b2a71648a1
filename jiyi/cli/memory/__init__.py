"""Commands for memories: observe, list, import, export, archive."""
