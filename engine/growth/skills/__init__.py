"""From experiences of one problem to a skill that somebody may confirm."""
