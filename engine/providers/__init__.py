"""Vendors of embeddings and LLMs: who they are, how a setting names one, how one is called without harm."""
