"""The registry: every action of the product, by name. ``models.db.actions`` says what an action is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.accounts import actions as accounts
from models.appointments import heartbeat_actions, schedule_actions
from models.conversations import actions as conversations
from models.db.actions import REGISTERED, Action
from models.erasure import actions as erasure
from models.growth import artifacts, identity_actions, pain_actions, self_review, tracking, trajectories
from models.items import actions as items
from models.memory import actions as memory
from models.memory import questions as memory_questions
from models.operations import actions as operations
from models.queue import actions as queue
from models.reflection import actions as reflection
from models.retrieval import actions as retrieval
from models.stores import actions as stores
from models.tiers import actions as tiers
from models.tiers import questions as tiers_questions

#: The modules whose import registers the actions: one a subject.
SUBJECTS = (
    *(accounts, conversations, erasure, memory, memory_questions),
    *(artifacts, trajectories, identity_actions, pain_actions, self_review, tracking),
    *(schedule_actions, heartbeat_actions),
    *(items, operations, queue, reflection, retrieval, stores, tiers, tiers_questions),
)
ACTIONS: Mapping[str, Action[Any, Any]] = REGISTERED
