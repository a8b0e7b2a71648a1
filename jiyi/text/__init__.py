"""Text: tokens, words, dates, splitting and token budgets, for both Chinese and English."""
