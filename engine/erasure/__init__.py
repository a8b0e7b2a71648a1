"""Erasure: how a person's names are recognised in a text."""
