"""What was done step by step in a conversation, and what it comes to."""
