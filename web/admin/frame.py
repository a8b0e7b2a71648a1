"""The frame of every page: its user, its group and the menu.

The user is identified before a page begins (``web.accounts.signin``). Here the page's group is chosen and
checked, and PostgreSQL's row-level security is set to hide other groups while the page is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, abort, current_app, g, request
from flask_babel import LazyString, lazy_gettext
from sqlalchemy import text

from jiyi.settings import get_settings
from models.accounts import users
from models.accounts.api_keys import LookupCache
from models.db.bounded_reads import attempt, from_database
from models.db.scope import for_groups, whole_service
from web.accounts.identity import Identity, Scope, identity, need, who
from web.answers import wants_json

#: The menu, by what people come to do: section → entries. Pages of one entry are tabs.
MENU: dict[LazyString, dict[str, LazyString]] = {
    lazy_gettext("Look"): {
        "overview": lazy_gettext("Overview"),
        "memories": lazy_gettext("Memories"),
        "tiers": lazy_gettext("Three tiers"),
        "stores": lazy_gettext("Stores"),
    },
    lazy_gettext("Ask"): {"retrieval": lazy_gettext("Retrieval")},
    lazy_gettext("People and agents"): {"users": lazy_gettext("Users"), "agents": lazy_gettext("Agents")},
    lazy_gettext("Grow"): {"skills": lazy_gettext("Skills"), "appointments": lazy_gettext("Appointments")},
    lazy_gettext("Operate"): {"work": lazy_gettext("Queues and work"), "access": lazy_gettext("Access")},
}
COOKIE = "jiyi_group"
COOKIE_SECONDS = 365 * 86_400
#: Seconds that the list of groups is kept by an app, and that a page waits for it.
GROUPS_KEPT = 2.0
GROUPS_TIMEOUT = 1.5
#: Seconds that it is kept which tables a group uses, and of how many groups.
USED_KEPT, MOST_GROUPS = 10.0, 1_000
#: What the list is kept under: there is one.
ALL = "all"


@dataclass(frozen=True, slots=True)
class MenuPage:
    """A page that the menu leads to."""

    #: The entry of :data:`MENU` whose tab it is.
    entry: str
    title: LazyString
    endpoint: str
    scope: Scope = "read"
    #: The whole service's: the chosen group makes no difference.
    of_service: bool = False
    #: A table: an entry whose pages all name one stands aside until the group has rows in some of them.
    table: str = ""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry of the menu, as somebody sees it: with the pages that are open to them."""

    title: LazyString
    pages: tuple[MenuPage, ...]

    def is_of(self, blueprint: str | None) -> bool:
        return any(page.endpoint.partition(".")[0] == blueprint for page in self.pages)


def register(app: Flask, entries: Mapping[str, Sequence[MenuPage]]) -> None:
    """``entries``: of each blueprint, by its name."""
    needed: dict[str, Scope] = {name: pages[0].scope for name, pages in entries.items() if pages}
    app.extensions["jiyi.pages"] = [page for pages in entries.values() for page in pages]
    app.extensions["jiyi.groups"] = LookupCache(_all_groups, fresh_seconds=GROUPS_KEPT, max_entries=1)
    app.extensions["jiyi.used"] = LookupCache(_used_tables, fresh_seconds=USED_KEPT, max_entries=MOST_GROUPS)

    def enter() -> None:
        if request.blueprint in entries:
            need("read")
            need(needed.get(str(request.blueprint), "read"))
            g.scope = ExitStack()
            g.scope.enter_context(for_groups(group()))

    app.extensions["jiyi.enter"] = enter
    app.before_request(enter)
    app.after_request(_leave)
    app.teardown_request(lambda _: _close_scope())
    app.context_processor(_surroundings)


def enter_again() -> None:
    """The request is another page's now, with its rights and its group. Raises as a request for it would."""
    _close_scope()
    g.pop("group", None)
    current_app.extensions["jiyi.enter"]()


def group() -> str:
    """The page's group, of the address, the cookie, or the first. 404 for one that may not be seen."""
    if "group" not in g:
        g.group = _chosen(who())
    return str(g.group)


@contextmanager
def across_groups() -> Iterator[None]:
    """An operator sees all groups within, anybody else theirs."""
    if who().may("operator"):
        with whole_service():
            yield
    else:
        yield


def groups() -> list[str]:
    """The groups to choose from; empty when the database does not answer."""
    allowed = who().groups
    return current_app.extensions["jiyi.groups"].get(ALL) or [] if allowed is None else sorted(allowed)


def storable(*names: str) -> None:
    """404 for a name that PostgreSQL cannot hold: NUL, or half a surrogate pair. Nothing is called so."""
    for name in names:
        if "\x00" in name or any("\ud800" <= character <= "\udfff" for character in name):
            abort(404)


def parameter(name: str, longest: int = 1_000) -> str | None:
    """A parameter of the address, or None. 404 if nothing can be called so."""
    value = request.args.get(name) or None
    storable(value or "")
    if value is not None and len(value) > longest:
        abort(400, f"{name}: longer than {longest:,} characters.")
    return value


def wants_fragment() -> bool:
    """Whether htmx asks, for a part of a page."""
    return request.headers.get("HX-Request") == "true"


def _chosen(identity: Identity) -> str:
    requested = (request.view_args or {}).get("group") or parameter("group")
    if requested:
        storable(requested)
        if not identity.sees(requested):
            abort(404, f"There is no group “{requested}”.")
        return str(requested)
    from_cookie = request.cookies.get(COOKIE, "")
    if from_cookie and "\x00" not in from_cookie and identity.sees(from_cookie):
        return from_cookie
    configured, existing = get_settings().group, groups()
    if identity.groups is None and (home := _home_group()) is not None:
        return home
    return configured if configured in existing or not existing else existing[0]


def _all_groups(_: object) -> dict[str, list[str]]:
    """One that is new may be missing for ``GROUPS_KEPT`` seconds; empty when the database does not answer."""
    with whole_service():
        return {ALL: attempt(lambda: from_database(users.groups, GROUPS_TIMEOUT)).value or []}


def _home_group() -> str | None:
    """What an operator who has chosen no group sees."""
    with whole_service():
        return attempt(
            lambda: from_database(
                lambda connection: users.home_group(connection, get_settings().group), GROUPS_TIMEOUT
            )
        ).value


def _leave(response: Response) -> Response:
    _close_scope()
    if request.args.get("group") and "group" in g and not wants_json():
        response.set_cookie(COOKIE, g.group, max_age=COOKIE_SECONDS, samesite="Lax", httponly=True)
    return response


def _close_scope() -> None:
    scope: ExitStack | None = g.pop("scope", None)
    if scope is not None:
        scope.close()


def _used_tables(groups: Collection[str]) -> dict[str, set[str]]:
    """Of each group the tables of menu pages in which it has rows; all of them while that is unknown."""
    tables = sorted({page.table for page in current_app.extensions["jiyi.pages"] if page.table})
    if not tables:
        return {group: set() for group in groups}
    parts = ", ".join(f"EXISTS (SELECT FROM {table} WHERE group_id = :group) AS {table}" for table in tables)

    def of(group: str) -> set[str]:
        row = attempt(
            lambda: from_database(
                lambda c: c.execute(text(f"SELECT {parts}"), {"group": group}).mappings().one(),
                GROUPS_TIMEOUT,
            )
        ).value
        return set(tables) if row is None else {table for table, is_used in row.items() if is_used}

    return {group: of(group) for group in groups}


def menu(group: str | None) -> tuple[list[tuple[LazyString, list[MenuEntry]]], list[MenuEntry]]:
    """Sections of the menu with the entries that the user may open; and entries of which the group has
    nothing yet, which stand aside.
    """
    caller = who()
    allowed = [page for page in current_app.extensions["jiyi.pages"] if caller.may(page.scope)]
    used = None if group is None else current_app.extensions["jiyi.used"].get(group)
    sections: list[tuple[LazyString, list[MenuEntry]]] = []
    aside: list[MenuEntry] = []
    for section, titles in MENU.items():
        visible: list[MenuEntry] = []
        for name, title in titles.items():
            entry = MenuEntry(title, tuple(page for page in allowed if page.entry == name))
            tables = {page.table for page in entry.pages}
            is_shown = used is None or "" in tables or tables & used or entry.is_of(request.blueprint)
            if entry.pages:
                (visible if is_shown else aside).append(entry)
        if visible:
            sections.append((section, visible))
    return sections, aside


def _surroundings() -> dict[str, object]:
    caller, chosen = identity(), g.get("group")
    around: dict[str, Any] = {"groups": [], "navigation": [], "unused": [], "tabs": None}
    around |= {"identity": caller, "group": chosen}
    if caller is not None and not wants_fragment():
        around["groups"] = groups() if chosen else []
        around["navigation"], around["unused"] = menu(chosen)
        entries = [entry for _, section in around["navigation"] for entry in section]
        around["tabs"] = next(
            (entry for entry in entries if len(entry.pages) > 1 and entry.is_of(request.blueprint)), None
        )
    return around
