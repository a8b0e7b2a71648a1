"""The verbs of both clients, and how they are said once for the two of them."""
