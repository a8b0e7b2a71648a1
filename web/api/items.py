"""Items: JSON values under a namespace and a key, for programs that keep something of their own."""

from __future__ import annotations

from models.items import actions
from web.api.registry import expose

expose(actions.put_items, "POST /items", "put_items", "items")
expose(actions.get_items, "POST /items/get", "get_items", "items")
expose(actions.search_items, "POST /items/search", "search_items", "items", errors=(504,))
expose(actions.list_namespaces, "POST /items/namespaces", "list_namespaces", "items")
