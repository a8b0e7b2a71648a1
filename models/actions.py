"""The registry: every action of the product, by name. ``models.db.actions`` says what an action is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.db.actions import REGISTERED, Action
from models.tiers import actions as tiers
from models.tiers import questions as tiers_questions

#: The modules whose import registers the actions: one a subject.
SUBJECTS = (tiers, tiers_questions)
ACTIONS: Mapping[str, Action[Any, Any]] = REGISTERED
