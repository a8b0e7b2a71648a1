"""One request through one operation: who asks, for which group, what exactly, and the answer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, get_origin

from flask import Response, request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from werkzeug.exceptions import RequestEntityTooLarge

from jiyi.protocol.events import CONTENT_TYPE, NUL_ESCAPE, unstorable
from jiyi.protocol.openapi.operations import GROUP_HEADER
from jiyi.protocol.openapi.problems import field_problem
from jiyi.protocol.wire.booleans import booleans_for_numbers
from jiyi.protocol.wire.json_keys import repeated_key, sentence
from jiyi.settings import get_settings
from models.db.scope import for_groups
from web.accounts.identity import Identity, need, who
from web.api.problems import Refused, refusal_of
from web.api.registry import Operation

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Asker:
    """For which group something is asked, and who is put down for what it changes."""

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


def run(operation: Operation, **parts: Any) -> Response:
    """Answer a request. Raises what :func:`web.api.problems.answer_to` makes problems of."""
    identity = who() if operation.scope is None else need(operation.scope)
    asker = Asker(group_of(identity), identity)
    names = [part for part in parts.values() if isinstance(part, str)]
    if any(not name.strip() for name in names) or any(True for _ in unstorable(names)):
        raise Refused(404, "Nothing has such a name.")
    arguments = {**parts}
    if (query := _query(operation)) is not None:
        arguments["query"] = query
    if operation.body is not None:
        arguments["body"] = _body(operation, operation.body)
    with scope_of(asker):
        value = operation.handler(asker, **arguments)
    headers = {}
    if isinstance(value, Reply):
        value, headers = value.value, value.headers
    content = value if isinstance(value, bytes) else to_json(value)
    return Response(content, operation.status, headers=headers, mimetype=CONTENT_TYPE)


def scope_of(asker: Asker) -> AbstractContextManager[None]:
    """What row-level security lets the request see, whatever its queries say."""
    return for_groups(asker.group_id)


def group_of(identity: Identity) -> str:
    """The key's group; for an operator's key, which has none, the one in the header, else the deployment's."""
    named = _group_header()
    if identity.groups is None:
        return named or get_settings().group
    if named is not None and not identity.sees(named):
        raise Refused(403, f"{GROUP_HEADER}: this key speaks for its own group; leave the header out.")
    return named or min(identity.groups)


def _group_header() -> str | None:
    named = request.headers.get(GROUP_HEADER)
    if not named:
        return None
    try:
        named = named.encode("latin-1").decode()  # WSGI hands headers over as Latin-1, whatever they are
    except UnicodeError:
        raise Refused(400, f"{GROUP_HEADER}: must be UTF-8.") from None
    if any(True for _ in unstorable(named)):
        raise Refused(400, f"{GROUP_HEADER}: no group has such a name.")
    return named


def _query(operation: Operation) -> BaseModel | None:
    """The parameters behind the question mark. One that there is not, or that comes twice, is refused."""
    model = operation.query
    given: dict[str, Any] = {}
    wrong = []
    for name, values in request.args.lists():
        if model is not None and name in model.model_fields and _is_list(model, name):
            given[name] = [part for value in values for part in value.split(",")]
            continue
        if len(values) > 1:
            wrong.append(f"{name}: given {len(values)} times; give it once")
        given[name] = values[0]
    wrong += unstorable(given)
    if model is None:
        wrong += [f"{name}: there is no such parameter" for name in given]
    if wrong:
        raise Refused(422, "; ".join(wrong), map(field_problem, wrong))
    if model is None:
        return None
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise refusal_of(error, model) from None


def _is_list(model: type[BaseModel], name: str) -> bool:
    return get_origin(model.model_fields[name].annotation) is list


def _body(operation: Operation, model: type[BaseModel]) -> BaseModel:
    limit = request.max_content_length = get_settings().max_message_bytes
    try:
        data = request.get_data(cache=False)
    except RequestEntityTooLarge:
        _drain(limit)
        raise
    if not data and not operation.body_required:
        return model()
    if request.mimetype != CONTENT_TYPE:
        raise Refused(415, f"The body must be JSON, with the header Content-Type: {CONTENT_TYPE}.")
    if (repeated := repeated_key(data)) is not None:
        raise Refused(422, sentence(repeated), [field_problem(sentence(repeated))])
    try:
        body = model.model_validate_json(data)
    except ValidationError as error:
        raise refusal_of(error, model) from None
    problems = list(unstorable(body.model_dump())) if NUL_ESCAPE in data else []
    if b"true" in data or b"false" in data:
        problems += [f"{path}: must be a number, not true or false" for path in booleans_for_numbers(model, from_json(data))]
    if problems:
        raise Refused(422, "; ".join(problems), map(field_problem, problems))
    return body


def _drain(most: int) -> None:
    """Read on, within bounds: a client that is still sending would otherwise find its connection cut, and no answer."""
    while most > 0 and (chunk := request.environ["wsgi.input"].read(min(most, CHUNK))):
        most -= len(chunk)
