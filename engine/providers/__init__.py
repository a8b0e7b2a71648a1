"""Vendors of embeddings and LLMs: who they are, how a setting names one, and how one is called without
harm.
"""
