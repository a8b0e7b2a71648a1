"""The routes of a page: the page, its JSON form, and the part of it that the browser requests separately.

Example::

    @pages.page("/conversations", "conversations.html")
    def index(connection: Connection, group: str) -> Context:
        rows = reads.agents(connection, group, inputs.place(BY_NAME) or "", SIZE + 1)
        return listed("agents", rows, SIZE, "agent_id")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import LazyString, lazy_gettext
from sqlalchemy import Connection

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import encode_cursor
from models.db.bounded_reads import from_database
from web.admin import frame
from web.admin.forms import refusal
from web.answers import answer, wants_json

T = TypeVar("T")

#: Data of a page, by the names that its template and its JSON have.
Context = dict[str, Any]
#: Gathers them; None: there is no such thing.
Gather = Callable[..., Context | None]

NO_AGENT = lazy_gettext("There is no agent “%(agent)s” in the group “%(group)s”.")


class Pages(Blueprint):
    """Routes of pages, and their tabs in the menu; what the first one needs is needed for every route."""

    def __init__(self, name: str, import_name: str, *entries: frame.MenuPage) -> None:
        super().__init__(name, import_name)
        self.entries = entries

    def page(
        self,
        path: str,
        template: str,
        name: str = "page",
        missing: LazyString | None = None,
        *,
        rows: str | None = None,
        live: str | None = None,
        every: int | None = None,
        across_groups: bool = False,
        late: bool = False,
        **extras: Any,
    ) -> Callable[[Gather], Callable[..., Context]]:
        """Make a function that gathers data a page; its JSON form is ``<name>_json``, at ``<path>.json``.

        The function gets the path's parts by name; if it takes them, also the group, and the connection of a
        short read-only transaction. What comes of this is a function that gathers the same, with the group.

        Args:
            path: its address.
            template: of the whole page.
            name: its endpoint.
            missing: what a 404 says when there are no data; may name the parts, ``group``, and the last part
                as ``id``.
            rows: template of the following rows, at ``<path>/rows``, in place of the button that asks for
                them.
            live: template of the part that is asked for again and again, at ``<path>/live``.
            every: seconds between two of these questions.
            across_groups: an operator sees those of all groups.
            late: they take long, so the page comes first and then asks for what is on it; ``?whole`` gives
                it at once.
            extras: what else the template gets; a function is called with the data.
        """

        def register(gather: Gather) -> Callable[..., Context]:
            parameters = signature(gather).parameters
            ask = reads_database(gather) if "connection" in parameters else gather

            @wraps(gather)
            def data(**parts: Any) -> Context:
                frame.storable(*(part for part in parts.values() if isinstance(part, str)))
                group = frame.group()
                arguments = {
                    name: value for name, value in {"group": group, **parts}.items() if name in parameters
                }
                with frame.across_groups() if across_groups else nullcontext():
                    gathered = ask(**arguments)
                if gathered is None:
                    abort(404, str(missing) % {"group": group, "id": list(parts.values())[-1], **parts})
                return {"group": group, **gathered}

            def whole(**parts: Any) -> Response:
                if late and not (wants_json() or frame.wants_fragment() or "whole" in request.args):
                    query = request.args.to_dict(flat=False) | parts | {"group": frame.group(), "whole": 1}
                    here = url_for(str(request.endpoint), **query)
                    return answer("late.html", data={"group": frame.group(), "address": here})
                gathered = data(**parts)
                besides = {
                    key: value(gathered) if callable(value) else value for key, value in extras.items()
                }
                return answer(template, data=gathered, every=every, **besides)

            self.add_url_rule(path, name, whole)
            self.add_url_rule(f"{path}.json", f"{name}_json", whole)
            for part, fragment in (("rows", rows), ("live", live)):
                if fragment is not None:
                    endpoint = part if name == "page" else f"{name}_{part}"
                    self.add_url_rule(f"{path}/{part}", endpoint, _fragment(fragment, data))
            return data

        return register


def reads_database(question: Callable[..., T]) -> Callable[..., T]:
    """Ask in a short read-only transaction. Raises ``SourceUnavailable``; 400 or 404 for a bad request."""

    @wraps(question)
    def in_transaction(*args: Any, **parts: Any) -> T:
        def read(connection: Connection) -> T:
            try:
                return question(connection, *args, **parts)
            except (InvalidRequest, NotFound) as error:
                raise refusal(error) from None

        return from_database(read)

    return in_transaction


def listed(name: str, fetched: Sequence[Any], size: int, *place: str) -> Context:
    """One page of rows, of which one too many was asked for, under a name; ``next`` is the following page's
    cursor, None if there is none: what the last row has in the fields of ``place``. ``cursor`` is this one's.
    """
    page: Context = {name: list(fetched[:size]), "cursor": frame.parameter("cursor"), "next": None}
    if len(fetched) > size:
        last = [getattr(fetched[size - 1], field) for field in place]
        page["next"] = encode_cursor(last[0] if len(last) == 1 else last)
    return page


def redirect_to(address: str) -> ResponseReturnValue:
    """Go on to another page, whether htmx asked or a form was sent."""
    return Response("", 204, {"HX-Redirect": address}) if frame.wants_fragment() else redirect(address, 303)


def _fragment(template: str, data: Callable[..., Context]) -> Callable[..., str]:
    return lambda **parts: render_template(template, **data(**parts))
