"""One request through one operation: the caller, the group, the parameters and the response."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, get_origin

from flask import Response, request
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from werkzeug.exceptions import TooManyRequests

from jiyi.protocol.base import unstorable
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.limits import REQUESTS_AT_ONCE, REQUESTS_OF_GROUP, RETRY_SECONDS
from jiyi.protocol.openapi.document import GROUP_HEADER, field_problem
from jiyi.settings import get_settings
from models.db.scope import for_groups
from web.accounts.identity import Identity, need, who
from web.api.bodies import read_body, room_for_body
from web.api.problems import RequestRefused, refusal_of
from web.api.registry import ApiOperation


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Tenant and authenticated principal of a request; the audit log records the principal."""

    group_id: str
    identity: Identity

    @property
    def actor(self) -> str:
        return self.identity.actor


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with headers of its own."""

    value: Any
    headers: dict[str, str] = field(default_factory=dict)


def run(operation: ApiOperation, **parts: Any) -> Response:
    """Answer a request. Raises what :func:`web.api.problems.answer_to` makes problems of."""
    identity = who() if operation.scope is None else need(operation.scope)
    context = RequestContext(group_of(identity), identity)
    names = [part for part in parts.values() if isinstance(part, str)]
    if any(not name.strip() for name in names) or any(True for _ in unstorable(names)):
        raise RequestRefused(404, "A name in the path is blank or has characters that cannot be stored.")
    arguments = {**parts}
    if (query := checked_query(operation.query, request.args.lists())) is not None:
        arguments["query"] = query
    with REQUESTS.one_of(context.group_id), room_for_body():
        if operation.body is not None:
            action = parts.get("name") if operation.action is None else operation.action.name
            arguments["body"] = read_body(operation, operation.body, action)
        with scope_of(context):
            value = operation.handler(context, **arguments)
    headers = {GROUP_HEADER: context.group_id.encode().decode("latin-1")}  # as WSGI wants it
    if isinstance(value, Reply):
        value, headers = value.value, headers | value.headers
    content = value if isinstance(value, bytes) else to_json(value)
    return Response(content, operation.status, headers=headers, mimetype=CONTENT_TYPE)


def scope_of(context: RequestContext) -> AbstractContextManager[None]:
    """What row-level security lets the request see, whatever its queries say."""
    return for_groups(context.group_id)


def group_of(identity: Identity) -> str:
    """The key's group; for an operator's key the one in the header, else the deployment's."""
    requested = _group_header()
    if identity.groups is None:
        return requested or get_settings().group
    if requested is not None and not identity.sees(requested):
        raise RequestRefused(403, f"{GROUP_HEADER}: this key speaks for its own group; leave the header out.")
    return requested or min(identity.groups)


def _group_header() -> str | None:
    name = request.headers.get(GROUP_HEADER)
    if not name:
        return None
    try:
        name = name.encode("latin-1").decode()  # WSGI hands headers over as Latin-1, whatever they are
    except UnicodeError:
        raise RequestRefused(400, f"{GROUP_HEADER}: must be UTF-8.") from None
    if any(True for _ in unstorable(name)):
        raise RequestRefused(400, f"{GROUP_HEADER}: no group has such a name.")
    return name


def checked_query(
    model: type[BaseModel] | None, parameters: Iterable[tuple[str, list[str]]]
) -> BaseModel | None:
    """The parameters behind the question mark. One that there is not, or that comes twice, is refused."""
    fields: dict[str, Any] = {}
    wrong = []
    for name, values in parameters:
        if model is not None and name in model.model_fields and _is_list(model, name):
            fields[name] = [part for value in values for part in value.split(",")]
            continue
        if len(values) > 1:
            wrong.append(f"{name}: given {len(values)} times; give it once")
        fields[name] = values[0]
    wrong += unstorable(fields)
    if model is None:
        wrong += [f"{name}: there is no such parameter" for name in fields]
    if wrong:
        raise RequestRefused(422, "; ".join(wrong), map(field_problem, wrong))
    if model is None:
        return None
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refusal_of(error, model) from None


def _is_list(model: type[BaseModel], name: str) -> bool:
    return get_origin(model.model_fields[name].annotation) is list


class InHand:
    """Requests that are being answered. Thread-safe.

    Args:
        most: of all groups.
        most_of_group: of one.
    """

    def __init__(self, most: int, most_of_group: int) -> None:
        self._most, self._most_of_group, self._lock = most, most_of_group, threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextmanager
    def one_of(self, group_id: str) -> Iterator[None]:
        """One more request of the group, until the end of the block. Raises :class:`TooManyRequests`."""
        again = f"Retry in {RETRY_SECONDS} s."
        with self._lock:
            if self._counts[group_id] >= self._most_of_group:
                detail = (
                    f"{self._most_of_group} requests of this group are being answered; send fewer at a time."
                    f" {again}"
                )
                raise TooManyRequests(detail, retry_after=RETRY_SECONDS)
            if self._counts.total() >= self._most:
                raise RequestRefused(
                    503, f"{self._most} requests are being answered. {again}", Retry_After=str(RETRY_SECONDS)
                )
            self._counts[group_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts -= Counter({group_id: 1})  # forgets groups of which there are none


#: This process's.
REQUESTS = InHand(REQUESTS_AT_ONCE, REQUESTS_OF_GROUP)
