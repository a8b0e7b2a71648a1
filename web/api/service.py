"""The service itself: counts, queues, dead letters, jobs; every action by its name or alias."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel, ValidationError

from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.actions import ALIASES, name_of
from jiyi.protocol.openapi.document import Tag
from jiyi.protocol.rest import Queues
from jiyi.protocol.wire.json_checks import wrong_types
from models.actions import ACTIONS, REFUSED
from models.db.actions import Action
from models.db.bounded_reads import source
from models.operations import actions as operations
from models.queue import actions as queue_actions
from models.queue import broker_queues
from web.accounts.identity import need
from web.actions import perform
from web.api.problems import RequestRefused
from web.api.registry import OPERATIONS, expose, operation
from web.api.running import RequestContext


class ActionBody(RootModel[dict[str, Any]]):
    """The action's request, without the group, which belongs to the key."""


class ActionResult(RootModel[Any]):
    """The action's result."""


@operation("POST /actions/<anything:name>", "service", scope=None, answer=ActionResult, errors=(504,))
def perform_action(context: RequestContext, name: str, body: ActionBody) -> Any:
    """Do or ask anything by its name.

    Everything that the service can do for a program, by the name that it has in the audit log and on the
    broker (`agents.list`, `memory.list`, `knowledge.promote` …), or by
    an alias: what the client library speaks. The key needs the action's scope. The
    other operations are the same actions with addresses and words of their own.
    """
    action = ACTIONS.get(name_of(name)) or REFUSED.get(name_of(name))
    if action is None:
        raise RequestRefused(404, f"There is no action {name!r}.")
    need(action.scope)  # before anything is said about the request
    try:
        request = action.request.model_validate(body.root)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error, action.request)) from None
    if problems := [*wrong_types(action.request, body.root)]:
        raise InvalidRequest(problems)
    return perform(action, context.group_id, request)


expose(operations.count_group, "GET /stats", "stats", "service")


@operation("GET /queues", "service", scope="read")
def list_queues(_context: RequestContext) -> Queues:
    """See how full the queues are.

    Messages that wait in each queue of the service, all groups together. Use it to slow down when it falls
    behind.
    """
    return source("broker").ask(broker_queues.states)


expose(queue_actions.list_letters, "GET /dead-letters", "list_dead_letters", "service")
expose(queue_actions.get_letter, "GET /dead-letters/<uuid:id>", "get_dead_letter", "service")
expose(
    queue_actions.resolve_letters,
    "POST /dead-letters/resolve",
    "resolve_dead_letters",
    "service",
    errors=(404,),
)
expose(operations.list_jobs, "GET /schedules", "list_jobs", "service")


expose(
    operations.run_job,
    "POST /schedules/<anything:job>/run",
    "run_job",
    "service",
    body_required=False,
    status=202,
    errors=(504,),
)


#: Subjects whose actions are operations by their names, ``POST /<subject>/<verb>``, and the tag that these
#: have.
OF_GROWTH = (
    "appointments evolution feedback heartbeats identity pains patterns proposals self_review tallies"
).split()
TAG_OF: dict[str, Tag] = {
    "conversations": "conversations",
    "stores": "stores",
    **dict.fromkeys(OF_GROWTH, "growth"),
}
#: Subjects of growth where a state stands against a change.
IN_CONFLICT = ("feedback", "identity", "pains", "proposals", "self_review")


def _expose(tag: Tag, path: str, action: Action[Any, Any], operation_id: str) -> None:
    """Make an action an operation, by default with the examples of its first one with the tag."""
    conflicts = action.mutates and action.name.startswith(IN_CONFLICT)
    errors = (404, 409) if conflicts else (404,)
    same = next((one for one in OPERATIONS if one.action is action and one.tag == tag), None)
    shared = {} if same is None else {"examples": same.examples, "answer_example": same.answer_example}
    expose(action, f"POST {path}", operation_id, tag, errors=errors, **shared)


for _alias, _name in ALIASES.items():
    if _name in ACTIONS:
        _expose("conversations", f"/conversations/{_alias}", ACTIONS[_name], _alias)
for _name, _action in ACTIONS.items():
    _subject, _, _verb = _name.partition(".")
    if _subject in TAG_OF:
        _expose(TAG_OF[_subject], f"/{_subject}/{_verb}", _action, f"{_subject}_{_verb}")
