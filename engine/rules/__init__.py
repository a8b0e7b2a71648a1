"""The rules that answer without an LLM: from the words of what they are asked about."""
