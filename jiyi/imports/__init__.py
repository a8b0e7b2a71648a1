"""Imports: what other systems export, as events. ``files`` and ``services`` read, the other modules parse."""
