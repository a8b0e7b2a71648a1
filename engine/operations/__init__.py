"""Operating the service: what of it needs no I/O."""
