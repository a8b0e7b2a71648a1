"""Declared stores: memories that a graph of agents declares in YAML and attaches to its nodes
(``docs/workflows.md``).
"""
