"""Erasure: what it is about, how it is deleted, and the proof that nothing is left."""
