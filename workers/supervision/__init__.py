"""Starting, watching, restarting and ending processes."""
