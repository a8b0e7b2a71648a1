"""Reflections, ended sessions and the evidence of thoughts."""
