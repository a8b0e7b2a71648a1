"""What is kept of declared stores: declarations, items, files, attachments, the log of operations."""
