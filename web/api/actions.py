"""Every action of the registry by its name: what the HTTP client calls, as the broker's client calls ``rpc.<name>``."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel, ValidationError

from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.actions import name_of
from jiyi.protocol.wire.json_checks import wrong_types
from models.actions import ACTIONS, REFUSED
from web.accounts.identity import need
from web.actions import perform
from web.api.problems import Refused
from web.api.registry import operation
from web.api.running import Asker


class ActionBody(RootModel[dict[str, Any]]):
    """The action's request, without the group, which belongs to the key."""


class ActionResult(RootModel[Any]):
    """The action's result."""


@operation(
    "POST", "/actions/<anything:name>", id="perform_action", scope=None, tag="service", body=ActionBody, answer=ActionResult, errors=(504,)
)
def perform_action(asker: Asker, name: str, body: ActionBody) -> Any:
    """Do or ask anything by its name.

    Everything that the service can do for a program, by the name that it has in the audit log and on the broker (`agents.list`,
    `memory.nodes`, `knowledge.promote` …), or by
    an alias: what the client library speaks. The key needs the right that the action needs. The
    other operations are the same actions with addresses and words of their own.
    """
    action = ACTIONS.get(name_of(name)) or REFUSED.get(name_of(name))
    if action is None:
        raise Refused(404, f"There is no action {name!r}.")
    need(action.scope)  # before anything is said about the request
    try:
        request = action.request.model_validate(body.root)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error, action.request)) from None
    if problems := [*wrong_types(action.request, body.root)]:
        raise InvalidRequest(problems)
    return perform(action, asker.group_id, request)
