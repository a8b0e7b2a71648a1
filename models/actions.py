"""The registry: every action of the product, by name. ``models.db.actions`` says what an action is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from engine import subjects
from engine.subjects import Subject
from jiyi.protocol.actions import TABLE, Declaration
from models.accounts import actions as accounts
from models.conversations import actions as conversations
from models.conversations import experience_actions as experiences
from models.db.actions import REGISTERED, Action, Context
from models.erasure import actions as erasure
from models.memory import archive
from models.memory import questions as memory_questions
from models.operations import actions as operations
from models.operations import worker_actions as workers
from models.queue import actions as queue
from models.reflection import actions as reflection
from models.retrieval import records

#: The modules whose import registers the actions: one a subject, and those of the optional subjects that are
#: on.
MODULES = (
    *(
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
        workers,
    ),
    *(import_module(module) for subject in subjects.on() for module in subject.models),
)
ACTIONS: Mapping[str, Action[Any, Any]] = REGISTERED


def _refused(declared: Declaration, subject: Subject) -> Action[Any, Any]:
    def refuse(_context: Context, _request: Any) -> Any:
        raise subject.refusal

    given = {field.name: getattr(declared, field.name) for field in fields(declared)}
    return Action(**{**given, "function": refuse, "mutates": False})


#: What belongs to subjects that are off: whoever asks for it is told so, whatever the request.
REFUSED: Mapping[str, Action[Any, Any]] = {
    name: _refused(declared, subject)
    for name, declared in TABLE.items()
    if (subject := subjects.of_action(name)) is not None
}
