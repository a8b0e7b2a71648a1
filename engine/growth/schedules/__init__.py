"""Times in words, in Chinese and in English: what is asked to be done, and when."""
