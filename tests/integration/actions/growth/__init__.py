"""Cases of growth."""
