"""Text: tokens, words, dates, splitting and token budgets, for Chinese and English alike."""
