"""Copies of the whole database: made, proven, restored."""
