"""``client.stores`` (``namespace``): stores that graphs of agents declare."""
