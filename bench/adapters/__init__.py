"""Scripts that run in a peer's own environment; see :mod:`bench.peers`."""
