"""Declared stores: their content, indexes and users; try one, index it again, delete it."""

from __future__ import annotations

from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.errors import NotFound
from jiyi.protocol.stores import FilesQuery, ItemsQuery, RetrieveItems, StoresQuery
from models.stores import actions, reads
from web.admin.acting import form, perform
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages, reads_database

store_pages = Pages(
    "stores", __name__, MenuPage("stores", lazy_gettext("Stores"), "stores.index", table="stores")
)

STORES_PER_PAGE, ITEMS_PER_PAGE, FILES_SHOWN, OPERATIONS_SHOWN = 50, 30, 30, 20
#: Characters of a line, of a question that is tried, and items that it finds.
LINE_CHARS, QUERY_CHARS, TRIED = 300, 2_000, 5
NO_STORE = lazy_gettext("There is no store “%(name)s” in the group “%(group)s”.")


@store_pages.page("/stores", "stores.html", "index", chars=LINE_CHARS)
def index(connection: Connection, group: str) -> Context:
    page_ = reads.listed(connection, group, StoresQuery(cursor=parameter("cursor"), limit=STORES_PER_PAGE))
    return {
        "stores": page_.rows,
        "next": page_.next,
        "nodes": reads.node_map(connection, group),
        "operations": reads.operations(connection, group, OPERATIONS_SHOWN),
    }


@store_pages.page(
    "/stores/<name:name>", "store.html", "one", NO_STORE, chars=LINE_CHARS, query_chars=QUERY_CHARS
)
def one(group: str, name: str) -> Context | None:
    query, run_id = parameter("query", QUERY_CHARS), parameter("run") or ""
    store = _store(group, name, run_id)
    if store is not None and query:
        question = RetrieveItems(name=name, run_id=run_id, query=query, top_k=TRIED)
        store["tried"] = perform(actions.retrieve, question)
    return store and {"run_id": run_id, "query": query, "tried": None, **store}


@reads_database
def _store(connection: Connection, group: str, name: str, run_id: str) -> Context | None:
    try:
        store = reads.state(connection, group, name, run_id)
    except NotFound:
        return None
    of_store, cursor = {"name": name, "run_id": run_id}, parameter("cursor")
    items_query = ItemsQuery(limit=ITEMS_PER_PAGE, cursor=cursor, **of_store)
    items = reads.page_of_items(connection, group, items_query)
    files = reads.page_of_files(
        connection, group, FilesQuery(limit=FILES_SHOWN, state=parameter("state"), **of_store)
    ).rows
    return {"store": store, "items": items.rows, "next": items.next, "cursor": cursor, "files": files}


RUN = {"run_id": "run"}
form(store_pages, "/stores/<name:name>/reindex", actions.reindex, "stores.one", names=RUN, in_address=["run"])
form(store_pages, "/stores/<name:name>/delete", actions.delete, "stores.index", names=RUN)


BLUEPRINTS = (store_pages,)
