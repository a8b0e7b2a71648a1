"""What each subject adds to this layer, in order. Its import registers all of it: what events become, what
conversations and prompts get from other subjects, what erasure and re-embedding do, and the actions. Each
process that stores events or does actions imports it.
"""

from __future__ import annotations

from engine.subjects import is_on, wired
from models.accounts import actions as accounts
from models.conversations import actions as conversations
from models.conversations import experiences, extraction_schedule
from models.erasure import actions as erasure
from models.erasure import refusal
from models.growth import erasure as growth_erasure
from models.items import storage as item_storage
from models.memory import archive
from models.memory import questions as memory_questions
from models.operations import actions as operations
from models.operations import worker_actions
from models.queue import actions as queue
from models.reflection import actions as reflection
from models.reflection import reflections
from models.retrieval import enlargement, records
from models.stores import erasure as store_erasure
from models.stores import items as store_items
from models.tiers import erasure as tier_erasure
from models.tiers import knowledge

#: What erasure and re-embedding do with optional subjects, on or off: their tables stay.
ALWAYS = (growth_erasure, item_storage, store_erasure, store_items, tier_erasure, knowledge)
#: What events become.
HANDLERS = [refusal, extraction_schedule, reflections, enlargement, experiences]
ACTIONS = [
    accounts,
    conversations,
    experiences,
    erasure,
    archive,
    memory_questions,
    operations,
    queue,
    reflection,
    records,
    worker_actions,
]

if is_on("growth"):
    from models.appointments import heartbeat_actions, schedule_actions
    from models.growth import (
        artifacts,
        evolution,
        identity,
        pain_actions,
        proposal_actions,
        self_review,
        trajectories,
    )

    HANDLERS += [trajectories, evolution, self_review]
    ACTIONS += [proposal_actions, artifacts, trajectories, identity, pain_actions, self_review]
    ACTIONS += [schedule_actions, heartbeat_actions]
if is_on("stores"):
    from models.stores import actions as stores

    ACTIONS += [stores]
if is_on("tiers"):
    from models.tiers import actions as tiers
    from models.tiers import quarantine
    from models.tiers import questions as tier_questions

    HANDLERS += [quarantine]
    ACTIONS += [tiers, tier_questions]
if is_on("items"):
    from models.items import actions as items

    ACTIONS += [items]
wired(__name__)
