"""Jiyi in other programs' terms. Each module needs an extra of its name (``pip install 'jiyi[langgraph]'``)."""
