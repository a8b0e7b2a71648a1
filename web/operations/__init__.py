"""Health, metrics and probes of the service."""
