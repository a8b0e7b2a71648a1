"""What grew, and what of it was used (ZC-11)."""
