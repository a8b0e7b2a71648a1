"""Tasks that operate the service."""
