"""Attacks on the prompts that memories are put into."""
