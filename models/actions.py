"""The registry: every action of the product, by name. ``models.db.actions`` says what an action is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.accounts import actions as accounts
from models.conversations import actions as conversations
from models.db.actions import REGISTERED, Action
from models.erasure import actions as erasure
from models.growth.artifacts import actions as growth_artifacts
from models.growth.heartbeat import actions as heartbeat_actions
from models.growth.identity import actions as identity
from models.growth.identity import questions as identity_questions
from models.growth.pains import actions as pains
from models.growth.reflections import actions as self_reflections
from models.growth.schedules import actions as schedule_actions
from models.growth.schedules import asking as schedule_asking
from models.growth.skills import actions as growth_skills
from models.growth.tracking import actions as tracking
from models.growth.trajectories import actions as growth_trajectories
from models.growth.workflows import actions as growth_workflows
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
    *(growth_artifacts, growth_skills, growth_trajectories, growth_workflows, schedule_actions, schedule_asking, heartbeat_actions),
    *(identity, identity_questions, pains, self_reflections, tracking),
    *(items, operations, queue, reflection, retrieval, stores, tiers, tiers_questions),
)
ACTIONS: Mapping[str, Action[Any, Any]] = REGISTERED
