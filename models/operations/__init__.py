"""Backups, canaries, meters, re-embedding and upkeep of the database."""
