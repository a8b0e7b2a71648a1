"""The REST API described: OpenAPI 3.1, the subset that Dify understands, and tools for LLMs, all made of the
declared operations.
"""
