"""Ways in: what others export, as events. ``files`` and ``services`` read, the other modules parse."""
