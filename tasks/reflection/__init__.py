"""Tasks that turn memories into thoughts."""
