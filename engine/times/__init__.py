"""Times in words, in Chinese and English: the grammar that appointments are read with."""
