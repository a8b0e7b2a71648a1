"""A proxy in front of an LLM's API that remembers: what programs ask and get passes through it (``jiyi
proxy``).
"""
