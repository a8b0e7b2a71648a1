"""``client.growth``."""
