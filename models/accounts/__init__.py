"""Groups' keys, people, sign-in attempts and the audit log."""
