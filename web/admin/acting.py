"""Changes that pages make, and questions to workers; nothing is waited for too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_origin
from uuid import UUID

from flask import Blueprint, abort, current_app, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from pydantic import BaseModel, ValidationError

from jiyi.errors import BrokerUnavailable, Conflict, InvalidRequest, NoAnswer, NotFound
from models.db.actions import Action
from models.db.bounded_reads import SourceUnavailable
from web import actions
from web.accounts.identity import Scope, need
from web.admin import frame
from web.admin.forms import FormRefused, problems, refusal
from web.admin.pages import Context, redirect_to

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

ID_ENDING = re.compile(r"_ids?$")
#: Seconds that a page waits for a worker to do something. The message expires then: nobody does it later.
WORKER_TIMEOUT = 8.0


def ids_of(values: Sequence[str], name: str, most: int) -> list[UUID]:
    """The ids among values of a name; 400 for what is no id, and for too many."""
    if len(values) > most:
        abort(400, _("At most %(most)s at a time.", most=f"{most:,}"))
    try:
        return [UUID(value) for value in values]
    except ValueError:
        abort(400, f"{name}: must be ids.")


def perform(
    action: Action[Q, R], request: Q | None = None, /, *, timeout: float = WORKER_TIMEOUT, **fields: Any
) -> R:
    """Perform an action for the page's group as the signed-in user; without a ``request``, ``fields`` are
    those of a new one.

    400, 404 or 409 with its words if it is refused: then nothing is changed.

    Raises:
        SourceUnavailable: what has to do it is away, or no worker answered in time.
    """
    need(action.scope)  # whatever the form says
    try:
        return actions.perform(
            action, frame.group(), request or checked(action.request, **fields), timeout=timeout
        )
    except (InvalidRequest, NotFound, Conflict) as error:
        raise refusal(error) from None
    except (NoAnswer, BrokerUnavailable) as error:
        raise SourceUnavailable("worker", str(error)) from error


def checked(model: type[Q], **fields: Any) -> Q:
    """The request that a form means; 400 with a sentence for each wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise FormRefused(problems(error)) from None


class PagePart(NamedTuple):
    """A template for what a page's ``gather`` gives, ``result``, ``form`` and ``beside``."""

    template: str
    gather: Callable[..., Context] = dict
    beside: Mapping[str, object] = MappingProxyType({})


def form(
    blueprint: Blueprint,
    path: str,
    action: Action[Any, Any],
    to: str | PagePart | Callable[[Context], str],
    *,
    name: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
    also: Mapping[str, object] = MappingProxyType({}),
    check: Callable[[Context], Context] = dict,
    in_address: Sequence[str] = (),
    scope: Scope = "read",
) -> None:
    """The route of a form that does one action and goes on to a page, or answers with a part of its own.

    Args:
        blueprint: of the module.
        path: its address; its parts are fields of the request.
        action: what is done.
        to: the endpoint of the page, whose address gets what it needs from the result, else from the path;
            or a function of the path's parts, the form and the result that gives the address; or a part.
        name: its endpoint; by default the path's last word.
        names: fields of the request that neither their own name nor a rule of :func:`sent` finds.
        also: fields of the request that every such form has.
        check: makes the request's fields of those that were sent.
        in_address: fields of the form that the page's address gets too.
        scope: a right that people need for it beyond what the action needs.
    """

    def submit(**parts: Any) -> ResponseReturnValue:
        frame.storable(*(part for part in parts.values() if isinstance(part, str)))
        need(scope), need(action.scope)
        fields = check({**sent(action.request, parts, names), **also})
        result = perform(action, checked(action.request, **fields))
        if isinstance(to, PagePart):
            context = {"group": frame.group(), **to.gather(**parts), **to.beside}
            return render_template(to.template, form=request.form, result=result, **context)
        values = {**parts, **(dict(result) if isinstance(result, BaseModel) else {})}
        if callable(to):
            return redirect_to(to({**request.form.to_dict(), **values}))
        arguments = next(current_app.url_map.iter_rules(to)).arguments
        address = {"group": frame.group(), **{field: request.form.get(field) or None for field in in_address}}
        return redirect_to(
            url_for(to, **address | {part: values[part] for part in arguments & values.keys()})
        )

    blueprint.add_url_rule(path, name or path.rpartition("/")[2], submit, methods=["POST"])


def sent(model: type[BaseModel], parts: Mapping[str, Any], aliases: Mapping[str, str]) -> Context:
    """The fields of a request that the address or, failing that, the form has.

    They have their own name there, that of ``aliases``, or that without ``_id``, ``_ids`` or ``s``; ``id``
    and ``ids`` are the last id of the address, too. Optional fields that were left blank are left out. The
    form has a list's values as separate fields, or one a line.
    """
    fields: Context = {}
    last_id = [name for name in parts if name.endswith("_id")][-1:]
    for field, info in model.model_fields.items():
        others = last_id if field in ("id", "ids") else [field.removesuffix("s"), ID_ENDING.sub("", field)]
        names = [aliases[field]] if field in aliases else [field, *others]
        several = get_origin(info.annotation) is list
        if (part := next((name for name in names if name in parts), None)) is not None:
            fields[field] = [parts[part]] if several else parts[part]
            continue
        name = next((name for name in names if name in request.form), field)
        if several:
            values = [line.strip() for text in request.form.getlist(name) for line in text.splitlines()]
            fields[field] = [value for value in values if value]
        elif (text := request.form.get(name, "").replace("\r\n", "\n")).strip() or (
            info.is_required() and name in request.form
        ):
            fields[field] = text
    return fields
