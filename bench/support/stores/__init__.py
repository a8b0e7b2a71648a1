"""What ``bench.stores`` measures: searches in files and in items, and how both grow."""
