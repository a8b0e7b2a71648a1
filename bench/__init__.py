"""Benchmarks and proofs, one command each; results as a table, or as JSON with ``--json``."""
