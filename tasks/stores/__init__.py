"""Work of declared stores: vectors of items, answers to questions."""
