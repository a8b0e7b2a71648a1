"""Erasure in what agents grow, and in what they do by themselves."""
