"""API keys, signatures of messages, and passwords: made and hashed where they are shown, so that no secret travels."""
