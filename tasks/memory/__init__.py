"""Tasks that an event sets off."""
