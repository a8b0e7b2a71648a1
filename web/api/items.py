"""Items: JSON values under a namespace and a key, for programs that keep something of their own."""

from __future__ import annotations

from models.items import actions
from web.api.registry import expose

expose(actions.put_items, "POST", "/items", id="put_items", tag="items")
expose(actions.get_items, "POST", "/items/get", id="get_items", tag="items")
expose(actions.search_items, "POST", "/items/search", id="search_items", tag="items", errors=(504,))
expose(actions.list_namespaces, "POST", "/items/namespaces", id="list_namespaces", tag="items")
