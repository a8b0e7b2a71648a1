"""Versions of the files that say who an agent is, proposals to change them, snapshots."""
