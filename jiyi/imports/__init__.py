"""Ways in: what other services and programs export, as events. ``files`` and ``services`` read, the modules
of sources parse.
"""
