"""What messages ask of an agent's appointments: whether, of which one, and to when it is moved."""
