"""Conversations of a chat program: what is remembered of them, and what of that goes before the next
answer.
"""
