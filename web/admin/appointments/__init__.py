"""Pages of appointments and heartbeats."""
