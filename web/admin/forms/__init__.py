"""Forms that were refused: the page answers again as it was filled in, with what is wrong beside the field that it names."""
