"""Who an agent is: its files, and how they change (ZC-131…ZC-133)."""
