"""Admin pages for operating the service."""
