"""The registry: every action of the product, by name. ``models.db.actions`` says what an action is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from engine import subjects
from engine.subjects import Subject
from jiyi.protocol.actions import TABLE, Declaration
from models import wiring
from models.db.actions import REGISTERED, Action, Context

assert wiring.ACTIONS  # their import is what registers them
ACTIONS: Mapping[str, Action[Any, Any]] = REGISTERED


def _refused(declared: Declaration, subject: Subject) -> Action[Any, Any]:
    def refuse(_context: Context, _request: Any) -> Any:
        raise subject.refusal

    attributes = {field.name: getattr(declared, field.name) for field in fields(declared)}
    return Action(**{**attributes, "function": refuse, "mutates": False})


#: Actions of subjects that are off: the caller gets the subject's refusal, whatever the request.
REFUSED: Mapping[str, Action[Any, Any]] = {
    name: _refused(declared, subject)
    for name, declared in TABLE.items()
    if (subject := subjects.of_action(name)) is not None
}
