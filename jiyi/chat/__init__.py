"""The loop of a chat program: what happens around each answer."""
