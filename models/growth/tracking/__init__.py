"""What grew, and what of it was used."""
