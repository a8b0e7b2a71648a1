"""Admin pages for keys, people, one's own account and the audit log."""
