"""The client library: what an agent's program uses."""
