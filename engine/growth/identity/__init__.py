"""Who an agent is: its files, and how they change."""
