"""Erasure: the task that carries it out, its steps, and what every worker forgets."""
