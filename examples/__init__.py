"""Runnable examples, each by itself: ``python -m examples.debate``."""
