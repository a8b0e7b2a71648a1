"""The routes of a page: the page, its JSON form, and the part of it that the browser asks for by itself.

Example::

    @page(blueprint, "/audit", "audit.html", rows="_audit.html")
    @reads_database
    def listed(connection: Connection, group: str) -> dict[str, Any]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from flask import Blueprint, Response, abort, redirect, render_template
from flask.typing import ResponseReturnValue
from flask_babel import LazyString
from sqlalchemy import Connection

from web.admin import frame
from web.answers import answer
from web.sources import from_database

T = TypeVar("T")
P = TypeVar("P")

#: Data of a page, by the names that its template and its JSON have; None: there is no such thing.
Gather = Callable[..., dict[str, Any] | None]


def page(
    blueprint: Blueprint,
    path: str,
    template: str,
    *,
    name: str = "page",
    rows: str | None = None,
    live: str | None = None,
    missing: LazyString | None = None,
    **shown: Any,
) -> Callable[[Gather], Callable[..., dict[str, object]]]:
    """Make a function that gathers data a page with the endpoint ``name``; its JSON form is ``<name>_json``, at ``<path>.json``.

    The function gets the group and the path's parts by name. What comes of this is a function that gathers the same, with the group.

    Args:
        blueprint: of the module.
        path: its address.
        template: of the whole page.
        name: its endpoint.
        rows: template of the following rows, at ``<path>/rows``: they take the place of the button that asked for them.
        live: template of the part that is asked for again and again, at ``<path>/live``.
        missing: what a 404 says when there are no data; may name the parts, ``group``, and the last part as ``id``.
        shown: what else the template gets; a function is called with the data.
    """

    def register(gather: Gather) -> Callable[..., dict[str, object]]:
        @wraps(gather)
        def data(**parts: Any) -> dict[str, object]:
            frame.storable(*(part for part in parts.values() if isinstance(part, str)))
            group = frame.group()
            found = gather(**{"group": group, **parts})
            if found is None:
                abort(404, str(missing) % {"group": group, "id": list(parts.values())[-1], **parts})
            return {"group": group, **found}

        def whole(**parts: Any) -> Response:
            found = data(**parts)
            return answer(template, data=found, **{key: value(found) if callable(value) else value for key, value in shown.items()})

        blueprint.add_url_rule(path, name, whole)
        blueprint.add_url_rule(f"{path}.json", f"{name}_json", whole)
        for part, fragment in (("rows", rows), ("live", live)):
            if fragment is not None:
                endpoint = part if name == "page" else f"{name}_{part}"
                blueprint.add_url_rule(f"{path}/{part}", endpoint, _fragment(fragment, data))
        return data

    return register


def reads_database(question: Callable[..., T]) -> Callable[..., T]:
    """Make a function of a connection one that asks the database, in a short read-only transaction.

    What comes of this raises :class:`web.sources.Unanswered` if the database gives no answer.
    """

    @wraps(question)
    def asked(*args: Any, **parts: Any) -> T:
        def read(connection: Connection) -> T:
            return question(connection, *args, **parts)

        return from_database(read)

    return asked


def split_page(found: Sequence[T], size: int, place: Callable[[T], P]) -> tuple[list[T], P | None]:
    """One page of rows, of which one too many was asked for; and the place of its last row if there are more."""
    shown = list(found[:size])
    return shown, place(shown[-1]) if len(found) > size else None


def redirect_to(address: str) -> ResponseReturnValue:
    """Go on to another page, whether htmx asked or a form was sent."""
    return Response("", 204, {"HX-Redirect": address}) if frame.wants_fragment() else redirect(address, 303)


def _fragment(template: str, data: Callable[..., Mapping[str, object]]) -> Callable[..., str]:
    return lambda **parts: render_template(template, **data(**parts))
