"""How things travel: vectors, the exchange and queue of events, calls and their replies."""
