"""Namespaces of the client, a module each: ``client.items``."""
