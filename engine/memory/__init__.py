"""How events become memory nodes, without I/O."""
