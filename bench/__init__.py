"""Benchmarks and proofs, one command each; results as a table, or as JSON with ``--json``."""

from models import wiring

assert wiring.HANDLERS  # benchmarks store events by themselves, too
