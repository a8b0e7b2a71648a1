"""Agents: their rows and settings, reads of them, their keyword strengths."""
