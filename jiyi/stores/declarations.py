"""What a graph declares: its stores, and which nodes ask them at which stages of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictBool, field_validator

from jiyi.errors import ConfigError
from jiyi.protocol.base import JsonObject, Name
from jiyi.stores.registry import StoreType, store_type, store_types, type_names
from jiyi.stores.types import Config, checked, joined


class Stage(StrEnum):
    """A moment of a node's run. Without a thinking module only ``gen`` and ``finished`` happen."""

    PRE_GEN_THINKING = "pre_gen_thinking"
    GEN = "gen"
    POST_GEN_THINKING = "post_gen_thinking"
    FINISHED = "finished"


#: Other names, in lower case.
ALIASES = {"pre": Stage.PRE_GEN_THINKING, "plan": Stage.PRE_GEN_THINKING, "critique": Stage.POST_GEN_THINKING}


def stage_of(name: str) -> Stage:
    """The stage of that name. Raises ``ValueError`` naming those there are."""
    key = name.strip().lower()
    try:
        return ALIASES.get(key) or Stage(key)
    except ValueError:
        stages = ", ".join([*Stage, *ALIASES])
        raise ValueError(f"unknown stage {name[:40]!r}; there are {stages}") from None


#: Items of one search, by default and at most.
TOP_K, MAX_TOP_K = 3, 1_000
#: No threshold.
NO_THRESHOLD = -1.0

TopK = Annotated[int, Field(strict=True, ge=1, le=MAX_TOP_K)]
Threshold = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class MemoryAttachmentConfig(Config):
    """An entry of a node's ``memories``."""

    name: Name = Field(description="The store, by its name in `memory`.")
    retrieve_stage: list[Stage] | None = Field(
        None, description="Stages at which the store is searched; all of them unless given."
    )
    top_k: TopK = Field(TOP_K, description="Most items of one search.")
    similarity_threshold: Threshold = Field(
        NO_THRESHOLD, description="Least cosine of an item; -1: no limit."
    )
    read: StrictBool = Field(True, description="Whether the node searches the store.")
    write: StrictBool = Field(True, description="Whether what the node says is stored in it.")

    @field_validator("retrieve_stage", mode="before")
    @classmethod
    def _stages(cls, stages: Any) -> Any:
        names = [stages] if isinstance(stages, str) else stages
        if isinstance(names, list) and all(isinstance(one, str) for one in names):
            return list(dict.fromkeys(map(stage_of, names)))
        return stages  # refused by the field's type

    def reads_at(self, stage: Stage) -> bool:
        """Whether the node searches this store at the stage."""
        return self.read and (self.retrieve_stage is None or stage in self.retrieve_stage)


#: Stores of a graph, its nodes, and attachments of a node, at most.
MAX_STORES, MAX_NODES, MAX_ATTACHMENTS = 100, 1_000, 50
MAX_NAME = 200


class MemoryStoreConfig(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """An entry of ``memory``: a store with its configuration, already checked by its type's model."""

    name: str
    type: str
    config: BaseModel

    @property
    def kind(self) -> StoreType:
        kind = store_type(self.type)
        assert kind is not None, "it was checked"
        return kind


class GraphConfig(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """What a graph declares."""

    stores: tuple[MemoryStoreConfig, ...]
    #: Node → its attachments, in their order.
    nodes: dict[str, tuple[MemoryAttachmentConfig, ...]]


def parse_graph(document: Any) -> GraphConfig:
    """The declarations of a graph: a mapping with ``memory`` and ``nodes``, or with a ``graph`` that has
    them.

    Raises:
        ConfigError: with a sentence for each thing that is wrong, which begins with its path.
    """
    whole = inside(document)
    problems: list[str] = []
    entries = _entries(whole, "memory", MAX_STORES)
    stores: dict[str, MemoryStoreConfig] = {}
    for number, entry in enumerate(entries):
        try:
            store = parse_store(entry, f"memory[{number}]")
        except ConfigError as error:
            problems += error.problems
            continue
        if store.name in stores:
            problems.append(f"memory[{number}].name: duplicated memory store name {store.name!r}")
        stores.setdefault(store.name, store)
    nodes: dict[str, tuple[MemoryAttachmentConfig, ...]] = {}
    for number, entry in enumerate(_entries(whole, "nodes", MAX_NODES)):
        try:
            node_id, attached, where = _node(entry, f"nodes[{number}]")
        except ConfigError as error:
            problems += error.problems
            continue
        if not attached:
            continue
        if node_id in nodes:
            problems.append(f"nodes[{number}].id: there are two nodes {node_id!r}")
        nodes[node_id] = attached
        if len(stores) == len(entries):  # else what is missing may be what is wrong
            problems += [
                f"{where}[{place}].name: memory reference {one.name!r} not defined in memory"
                for place, one in enumerate(attached)
                if one.name not in stores
            ]
    if problems:
        raise ConfigError(problems)
    return GraphConfig(stores=tuple(stores.values()), nodes=nodes)


def inside(document: Any) -> Mapping[str, Any]:
    """What holds ``memory`` and ``nodes``: the document, or its ``graph``. Raises :class:`ConfigError`."""
    if not isinstance(document, Mapping):
        raise ConfigError("graph: must be a mapping with `memory` and `nodes`")
    inner = document.get("graph")
    return inner if isinstance(inner, Mapping) else document


def _entries(whole: Mapping[str, Any], key: str, most: int) -> list[Any]:
    entries = whole.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise ConfigError(f"{key}: must be a list")
    if len(entries) > most:
        raise ConfigError(f"{key}: has {len(entries):,} entries, more than {most:,}")
    return entries


def parse_store(entry: Any, path: str) -> MemoryStoreConfig:
    """One store. Raises :class:`ConfigError`."""
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path}: must be a mapping with name, type and config")
    for key in entry:
        if key not in ("name", "type", "config"):
            raise ConfigError(f"{joined(path, str(key))}: unknown; a store has name, type and config")
    name, kind = (_text(entry.get(key), f"{path}.{key}") for key in ("name", "type"))
    cls = store_type(kind)
    if cls is None:
        raise ConfigError(f"{path}.type: unknown type {kind[:60]!r}; there are {', '.join(type_names())}")
    if entry.get("config") is None:
        raise ConfigError(f"{path}.config: a memory store requires a config block, if only `config: {{}}`")
    config = checked(cls.config_cls, entry["config"], f"{path}.config")
    return MemoryStoreConfig(name=name, type=kind, config=config)


def _node(node: Any, path: str) -> tuple[str, tuple[MemoryAttachmentConfig, ...], str]:
    """A node's name, its attachments, and where they stand."""
    if not isinstance(node, Mapping):
        raise ConfigError(f"{path}: must be a mapping with id and memories")
    config = node.get("config")
    holder, where = node, path
    if isinstance(config, Mapping) and ("memories" in config or "memory" in config):
        holder, where = config, f"{path}.config"
    if "memory" in holder:
        raise ConfigError(f"{where}.memory: no longer known; list the node's stores in `memories`")
    attachments, where = holder.get("memories"), f"{where}.memories"
    if attachments is None:
        return "", (), where
    if not isinstance(attachments, list) or len(attachments) > MAX_ATTACHMENTS:
        raise ConfigError(f"{where}: must be a list of at most {MAX_ATTACHMENTS} attachments")
    attached: dict[str, MemoryAttachmentConfig] = {}
    for number, one in enumerate(attachments):
        attachment = checked(MemoryAttachmentConfig, one, f"{where}[{number}]")
        if attachment.name in attached:
            raise ConfigError(
                f"{where}[{number}].name: {attachment.name!r} is attached already; give it all its stages in"
                " one attachment"
            )
        attached[attachment.name] = attachment
    return _text(node.get("id"), f"{path}.id"), tuple(attached.values()), where


def _text(text: Any, path: str) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_NAME or "\0" in text:
        raise ConfigError(f"{path}: must be a text of 1 to {MAX_NAME} characters")
    return text.strip()


def schema() -> JsonObject:
    """A document for a graph's file: ``memory`` and ``nodes``, within ``graph`` or not.

    Attachments stand beside a node's ``id`` or in its ``config``.
    """
    types = store_types().values()
    attachment = MemoryAttachmentConfig.model_json_schema()
    definitions = attachment.pop("$defs", {})
    stage = {"type": "string", "enum": [*Stage, *ALIASES], "description": "When the store is searched."}
    definitions["Stage"] = stage
    stores = [_store(one, definitions) for one in types]
    options = [{"value": one.name, "description": one.summary} for one in types]
    kinds = {"enum": [one.name for one in types], "enum_options": options}
    attached = {"memories": {"type": "array", "items": attachment}}
    config = {"type": "object", "properties": attached}
    properties = {"id": {"type": "string"}, **attached, "config": config}
    node = {"type": "object", "properties": properties, "required": ["id"]}
    declared = {
        "memory": {"type": "array", "items": {"properties": {"type": kinds}, "oneOf": stores}},
        "nodes": {"type": "array", "items": node},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stores of a graph",
        "type": "object",
        "properties": {**declared, "graph": {"type": "object", "properties": declared}},
        "$defs": definitions,
    }


def _store(one: StoreType, definitions: JsonObject) -> JsonObject:
    config = one.config_cls.model_json_schema()
    definitions.update(config.pop("$defs", {}))
    properties = {
        "name": {"type": "string", "maxLength": 200},
        "type": {"const": one.name, "description": one.summary},
        "config": config,
    }
    return {
        "type": "object",
        "description": one.summary,
        "properties": properties,
        "required": ["name", "type", "config"],
        "additionalProperties": False,
    }
