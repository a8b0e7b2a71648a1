"""How memories become thoughts, without I/O."""
