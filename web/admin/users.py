"""The users whom agents talk with: a list, and one page each with all that is known of them."""

from __future__ import annotations

from collections.abc import Iterable

from flask import url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.subjects import is_on
from jiyi.protocol.base import BY_NAME, composed
from jiyi.protocol.conversations import Profile, parse_uri
from jiyi.protocol.memory import Memory
from models.conversations import traces, users
from models.conversations.actions import forget
from models.conversations.injections import find_profile
from models.memory.archive import reinstate_memory
from web.admin import inputs
from web.admin.acting import PagePart, form
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages, listed

user_pages = Pages("users", __name__, MenuPage("users", lazy_gettext("Users"), "users.index"))

USERS_PER_PAGE = 50
#: Of one user: statements, changes, conversations and traces, the latest of each.
STATEMENTS_SHOWN, LATEST_SHOWN = 200, 10
NO_USER = lazy_gettext("There is no user “%(user)s” in the group “%(group)s”.")
USER = "/users/<name:group>/<name:user>"


@user_pages.page("/users", "users.html", "index")
def index(connection: Connection, group: str) -> Context:
    part, after = parameter("q", 200) or "", inputs.place(BY_NAME) or ""
    rows = users.users(connection, group, composed(part), after, USERS_PER_PAGE + 1)
    return {"q": part, **listed("users", rows, USERS_PER_PAGE, "user_id")}


@user_pages.page(USER, "user.html", "user", NO_USER, most=STATEMENTS_SHOWN)
def one(connection: Connection, group: str, user: str) -> Context | None:
    agents = users.agents_of(connection, group, user)
    if not agents:
        return None
    of_user = (connection, group, user, agents)
    statements = users.statements_of(*of_user, superseded=False, limit=STATEMENTS_SHOWN)
    changes = users.statements_of(*of_user, superseded=True, limit=LATEST_SHOWN)
    return {
        "user_id": user,
        "agents": agents,
        "profile": profile_with_evidence(
            (find_profile(connection, (group, agent), user) for agent in agents), statements
        ),
        "statements": by_attribute(statements),
        "changes": changes,
        "sessions": users.sessions_of(connection, group, user, LATEST_SHOWN),
        "reminders": users.reminders_of(connection, group, user, LATEST_SHOWN) if is_on("growth") else [],
        "traces": traces.traces(connection, group, None, user, None, None, LATEST_SHOWN),
    }


def by_attribute(statements: Iterable[Memory]) -> dict[str, list[Memory]]:
    """Memories by the last part of their address (``home``, ``diet``); those without one are last."""
    attributes: dict[str, list[Memory]] = {}
    for memory in statements:
        path = parse_uri(memory.uri).path if memory.uri else ()
        attributes.setdefault(path[-1] if path else "", []).append(memory)
    return dict(sorted(attributes.items(), key=lambda entry: (not entry[0], entry[0])))


def profile_with_evidence(
    profiles: Iterable[Profile | None], statements: Iterable[Memory]
) -> list[tuple[str, str, Memory | None]]:
    """(field, value, a statement that has the value's words) of each value that some agent's profile has."""
    lines: dict[tuple[str, str], Memory | None] = {}
    known = list(statements)
    for profile in profiles:
        for field, values in (
            profile.model_dump(exclude={"updated_at"}, exclude_none=True).items() if profile else ()
        ):
            for value in values if isinstance(values, list) else [values]:
                said = (memory for memory in known if value.casefold() in memory.description.casefold())
                lines[field, value] = next(said, None)
    return [(field, value, memory) for (field, value), memory in lines.items()]


def _here(values: Context) -> str:
    return url_for("users.user", group=values["group"], user=values["user"])


form(user_pages, f"{USER}/<uuid:node_id>/reinstate", reinstate_memory, _here)
form(user_pages, f"{USER}/forget", forget, PagePart("_forgotten.html"), scope="admin")
