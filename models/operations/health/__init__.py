"""Is the service healthy: the servers it stands on, its queues and who reads them, and what that means."""
