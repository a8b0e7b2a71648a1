"""``client.stores``: stores that graphs declare (``docs/workflows.md``)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.client.calls import Namespace, W
from jiyi.client.steps import Steps, verb
from jiyi.protocol import stores as protocol
from jiyi.protocol.base import DEFAULT_PAGE, Count, Rows
from jiyi.protocol.stores import Snapshot


class Stores(Namespace[W]):
    """The group's stores. ``run_id`` names the store of one run of a graph; without it, and if the run has none, it is the group's."""

    @verb
    def apply(
        self, graph: str, memory: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]] = (), *, run_id: str = ""
    ) -> Steps[protocol.AppliedGraph]:
        """Declare a graph's stores and which of its nodes use them (:class:`jiyi.stores.graph.Graph` reads them from a file).

        Raises:
            ConfigError: with the path of what is wrong; nothing is changed.
        """
        return self._call("stores.apply", graph=graph, memory=list(memory), nodes=list(nodes), run_id=run_id)

    @verb
    def schema(self) -> Steps[dict[str, Any]]:
        """The JSON Schema of declarations."""
        answer: protocol.StoreSchema = yield from self._call("stores.schema")
        return answer.document

    @verb
    def list(self, *, run_id: str | None = None, limit: int = DEFAULT_PAGE, cursor: str | None = None) -> Steps[Rows[protocol.StoreState]]:
        """A page of stores, newest first."""
        return self._call("stores.list", run_id=run_id, limit=limit, cursor=cursor)

    @verb
    def show(self, name: str, *, run_id: str = "") -> Steps[protocol.StoreState]:
        """A store, what is in it, and how far its index is."""
        return self._call("stores.show", name=name, run_id=run_id)

    @verb
    def items(
        self, name: str, *, run_id: str = "", limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Steps[Rows[protocol.ListedItem]]:
        """A page of a store's items, newest first."""
        return self._call("stores.items", name=name, run_id=run_id, limit=limit, cursor=cursor)

    @verb
    def files(
        self, name: str, *, run_id: str = "", state: str | None = None, limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Steps[Rows[protocol.ListedFile]]:
        """A page of a store's files in the order of their paths: how far their indexes are, what is the matter with them."""
        return self._call("stores.files", name=name, run_id=run_id, state=state, limit=limit, cursor=cursor)

    @verb
    def attachment(self, name: str, attachment_id: str, *, run_id: str = "") -> Steps[bytes]:
        """The bytes of an attachment, as they came."""
        answer: protocol.AttachmentBytes = yield from self._call("stores.attachment", name=name, run_id=run_id, attachment_id=attachment_id)
        return base64.b64decode(answer.data)

    @verb
    def load(self, name: str, *, run_id: str = "") -> Steps[protocol.StoreState]:
        """Make a store ready; work that brings its index up to date is owed, and not waited for."""
        return self._call("stores.load", name=name, run_id=run_id)

    @verb
    def retrieve(
        self,
        name: str,
        query: str,
        *,
        role: str = "",
        top_k: int = 3,
        similarity_threshold: float = -1,
        search: str | None = None,
        run_id: str = "",
        timeout: float | None = None,
    ) -> Steps[protocol.FoundStoreItems]:
        """The items of a store that fit a question best, with the parts of their scores.

        ``search``: how a store of files is searched: ``hybrid``, ``dense`` or ``lexical``; as declared unless given.
        """
        return self._call(
            "stores.retrieve",
            timeout,
            name=name,
            run_id=run_id,
            role=role,
            query=query,
            top_k=top_k,
            similarity_threshold=similarity_threshold,
            search=search,
        )

    @verb
    def update(
        self,
        name: str,
        *,
        role: str,
        inputs_text: str = "",
        input_snapshot: Snapshot | None = None,
        output_snapshot: Snapshot | str | None = None,
        run_id: str = "",
    ) -> Steps[protocol.WrittenItem]:
        """Store what a node said."""
        output = {"text": output_snapshot} if isinstance(output_snapshot, str) else output_snapshot
        return self._call(
            "stores.update",
            name=name,
            run_id=run_id,
            role=role,
            inputs_text=inputs_text,
            input_snapshot=input_snapshot,
            output_snapshot=output,
        )

    @verb
    def save(self, name: str, *, run_id: str = "") -> Steps[protocol.SavedStore]:
        """Write a store to the file of its path, in the original's format."""
        return self._call("stores.save", name=name, run_id=run_id)

    @verb
    def reindex(self, name: str, *, run_id: str = "") -> Steps[int]:
        """Have a store's index made anew; how many items or files that are."""
        answer: Count = yield from self._call("stores.reindex", name=name, run_id=run_id)
        return answer.count

    @verb
    def delete(self, name: str, *, run_id: str = "") -> Steps[int]:
        """Delete a store with all that it holds; how many items that were."""
        answer: Count = yield from self._call("stores.delete", name=name, run_id=run_id)
        return answer.count

    @verb
    def log(self, operation: protocol.LogOperation) -> Steps[None]:
        """Note what a node did with its stores."""
        yield from self._call("stores.log", **dict(operation))
