"""Kinds of growth's work, as they are owed in ``pending_work``."""

from __future__ import annotations

#: Subject: an agent's key. Its experiences, or its trajectories, have changed.
AGGREGATE, COMPOSE = "aggregate", "compose"
#: Subject: an agent's key. Its new turns, its profile.
MERGE_PAINS, FOLLOW_PROFILE = "merge_pains", "follow_profile"
#: Subject: a pain point.
SOLVE_PAIN = "solve_pain"
