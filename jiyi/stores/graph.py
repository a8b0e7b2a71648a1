"""A graph's stores in its program: read from its file, declared to the service, made once, shared by all
nodes.

``${VAR}`` in a file is filled in here, from the environment of who reads it, never from the service's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypedDict
from uuid import uuid4

from jiyi.client.client import Client
from jiyi.errors import ConfigError, kind_and_words
from jiyi.protocol.base import JsonObject
from jiyi.protocol.providers import ALIASES, PRESETS
from jiyi.stores.declarations import GraphConfig, MemoryStoreConfig, inside, parse_graph
from jiyi.stores.manager import MemoryManager, StoreFailed, Style, load, save
from jiyi.stores.registry import BUILT_IN
from jiyi.stores.store import ServiceStore, Store, Surroundings
from jiyi.text.yaml_reading import YamlError, read_yaml

#: Characters of a graph's file.
MAX_CHARS = 2_000_000
#: Fields of a store's own embedder, and the variables that they are filled in from where the file leaves them
#: out.
DEFAULTS = {"api_key": "API_KEY", "base_url": "BASE_URL"}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})\}")


class Declarations(TypedDict):
    """What a graph's file declares; not checked yet."""

    memory: list[Mapping[str, Any]]
    nodes: list[Mapping[str, Any]]


def read_graph(text: str, variables: Mapping[str, str] | None = None) -> Declarations:
    """A graph's file with ``${VAR}`` filled in from ``variables`` (the environment, unless given).

    Raises:
        ConfigError: it is no YAML, too large, or a variable is not set.
    """
    try:
        whole = inside(read_yaml(text, MAX_CHARS))
    except YamlError as error:
        raise ConfigError(f"graph: {error}") from None
    values = os.environ if variables is None else variables
    memory = _filled(whole.get("memory") or [], values, "memory")
    _add_defaults(memory, values)
    return Declarations(memory=memory, nodes=_filled(whole.get("nodes") or [], values, "nodes"))


def _add_defaults(memory: Any, variables: Mapping[str, str]) -> None:
    """A vendor's embedder has ``${API_KEY}`` and ``${BASE_URL}`` where it says nothing else."""
    for store in memory if isinstance(memory, list) else []:
        config = store.get("config") if isinstance(store, dict) else None
        embedding = config.get("embedding") if isinstance(config, dict) else None
        if isinstance(embedding, dict) and str(embedding.get("provider", "")).lower() in {*PRESETS, *ALIASES}:
            for field, variable in DEFAULTS.items():
                if embedding.get(field) is None and variables.get(variable):
                    embedding[field] = variables[variable]


def _filled(value: Any, variables: Mapping[str, str], path: str) -> Any:
    """Only what is a store's: what else a node has is not looked at."""
    if isinstance(value, str):

        def known(match: re.Match[str]) -> str:
            if match[1] not in variables:
                raise ConfigError(f"{path}: the variable {match[1]} is not set")
            return variables[match[1]]

        return _VARIABLE.sub(known, value)
    if isinstance(value, list):
        if path == "nodes":
            return [_node(one) if isinstance(one, Mapping) else one for one in value]
        return [_filled(one, variables, f"{path}[{number}]") for number, one in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _filled(one, variables, f"{path}.{key}") for key, one in value.items()}
    return value


def _node(node: Mapping[str, Any]) -> JsonObject:
    config = node.get("config")
    fields = {key: node[key] for key in ("id", "memories", "memory") if key in node}
    if isinstance(config, Mapping):
        fields["config"] = {key: config[key] for key in ("memories", "memory") if key in config}
    return fields


class Graph:
    """The stores of one run of a graph.

    Example::

        with Graph.from_file(client, "graph.yaml") as graph:
            memory = graph.manager("answer")
            found = memory.retrieve("answer", "Where does Mia live?", "gen")
            memory.update("answer", "Where does Mia live?", "In Lisbon.")

    Its end writes stores with a ``memory_path`` to their files (:meth:`close`).
    """

    def __init__(
        self,
        client: Client | None,
        document: Mapping[str, Any],
        *,
        name: str = "graph",
        run_id: str | None = None,
        style: Style | None = None,
        log_operations: bool = True,
    ) -> None:
        """Declare the stores and make them ready.

        Args:
            client: of the service; None: all stores are the program's own.
            document: with ``memory`` and ``nodes``, its variables filled in.
            name: of the graph.
            run_id: of this run; a new one unless given. Processes that give the same one share what has no
            path.
            style: how what is found is ranked and put into words.
            log_operations: whether the nodes' operations on their stores are sent to the service.

        Raises:
            ConfigError: with the path of what is wrong.
            StoreFailed: a store cannot be made or loaded.
        """
        self.config: GraphConfig = parse_graph(document)
        self.name, self.run_id = name, run_id or f"run-{uuid4().hex}"
        self._client, self._style = client, style
        logs = client is not None and log_operations
        self._note = (lambda entry: client.stores.log(**dict(entry))) if client and logs else None
        if client is not None and self.config.stores:
            memory, nodes = _for_service(document, self.config)
            client.stores.apply(graph=name, memory=memory, nodes=nodes, run_id=self.run_id)
        self.stores: dict[str, Store] = {store.name: self._make(store) for store in self.config.stores}
        for store_name, store in self.stores.items():
            load(store_name, store)

    @classmethod
    def from_file(cls, client: Client | None, path: str | Path, **options: Any) -> Graph:
        """The graph of a YAML file, named as the file unless ``name`` is given. Raises as the constructor."""
        file = Path(path)
        return cls(client, read_graph(file.read_text(encoding="utf-8")), **{"name": file.stem, **options})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> dict[str, str]:
        """At the end of a run: write the stores that nodes write to their files; store → what went wrong.

        May be called more than once.
        """
        written = {one.name for attached in self.config.nodes.values() for one in attached if one.write}
        return save({name: store for name, store in self.stores.items() if name in written})

    def manager(self, node_id: str) -> MemoryManager:
        """What the node does its memory with; without attachments it finds and stores nothing."""
        return MemoryManager(
            node_id,
            self.config.nodes.get(node_id, ()),
            self.stores,
            style=self._style,
            note=self._note,
            graph=self.name,
            run_id=self.run_id,
        )

    def _make(self, store: MemoryStoreConfig) -> Store:
        failed, factory = f"Failed to create memory {store.name!r}", store.kind.factory
        if factory is None:
            if self._client is None:
                raise StoreFailed(f"{failed}: the service keeps {store.type} stores, and there is no client")
            saved = getattr(store.config, "path", None) is not None
            return ServiceStore(self._client, store.name, self.run_id, saved=saved)
        around = Surroundings(graph=self.name, run_id=self.run_id, client=self._client)
        try:
            new_store: Store = factory(store.config, around)
        except Exception as error:
            raise StoreFailed(f"{failed}: {kind_and_words(error)}") from error
        return new_store


def _for_service(document: Mapping[str, Any], config: GraphConfig) -> tuple[list[Any], list[Any]]:
    """The stores of Jiyi's own types and the nodes' attachments to them; only the program knows others."""
    names = {store.name for store in config.stores if store.type in BUILT_IN}
    entries = zip(inside(document).get("memory") or [], config.stores, strict=True)
    memory = [entry for entry, store in entries if store.name in names]
    nodes = [
        {"id": node_id, "memories": [one.model_dump(mode="json") for one in attached if one.name in names]}
        for node_id, attached in config.nodes.items()
    ]
    return memory, nodes
