"""Memories saved by the original Generative Agents simulation, as events (Park et al. 2023).

Reads a persona's folder in the original's layout (``bootstrap_memory/associative_memory/…``) or flat:
``nodes.json``, ``kw_strength.json``, ``scratch.json`` and, if there, the vectors (``embeddings.json``,
or ``embeddings.npz`` with ``keys`` and ``vectors``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5
from zipfile import BadZipFile

from jiyi.errors import InvalidEvent, InvalidRequest
from jiyi.protocol import events as wire
from jiyi.protocol import limits
from jiyi.protocol.base import MAX_KEYWORD_CHARS, MAX_PART_CHARS, JsonObject
from jiyi.protocol.event_bodies import digest
from jiyi.protocol.events import Event

#: What the original embedded with.
ORIGINAL_MODEL = "text-embedding-ada-002"
NAMESPACE = UUID("2b1d8a0e-6f0c-5c3e-9f57-0c1a4c9d7e21")

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
CLOCK_FORMAT = "%B %d, %Y, %H:%M:%S"
_NODE_ID = re.compile(r"node_[1-9]\d*\Z")
_SETTINGS = ("recency_w", "relevance_w", "importance_w", "recency_decay", "importance_trigger_max")


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedMemory:
    """One persona's memory. ``nodes`` are the saved objects in the order of their insertion."""

    persona: str
    nodes: list[dict[str, Any]]
    scratch: dict[str, Any]
    kw_strength: dict[str, dict[str, int]]
    #: Embedding key → vector, for the keys whose vector is known.
    vectors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> datetime | None:
        """The simulation's clock when it was saved."""
        saved = self.scratch.get("curr_time")
        return None if not saved else datetime.strptime(saved, CLOCK_FORMAT).replace(tzinfo=UTC)


def node_uuid(group_id: str, agent_id: str, node_id: str) -> UUID:
    """The event id of ``node_<k>``: always the same, so that a second import changes nothing."""
    return uuid5(NAMESPACE, f"{group_id}\n{agent_id}\n{node_id}")


def read(folder: Path) -> SavedMemory:
    """The memory saved in ``folder``. Raises :class:`InvalidRequest` with the file and what is wrong."""
    home = next((place for place in _places(folder) if (place / "nodes.json").is_file()), None)
    if home is None:
        where = "no nodes.json in it, nor in bootstrap_memory/associative_memory"
        raise InvalidRequest([f"{folder}: no Stanford memory ({where})"])
    saved = _json(home / "nodes.json")
    unknown = [node_id for node_id in saved if not _NODE_ID.match(node_id)]
    if unknown:
        raise InvalidRequest([f"{home / 'nodes.json'}: {unknown[0]!r} is no node id (node_1, node_2, …)"])
    order = sorted(saved, key=lambda node_id: int(node_id.removeprefix("node_")))
    if order != [f"node_{k}" for k in range(1, len(order) + 1)]:
        problem = f"the node ids have a gap; they must be node_1 … node_{len(order)}"
        raise InvalidRequest([f"{home / 'nodes.json'}: {problem}"])
    invalid = [node_id for node_id in order if not isinstance(saved[node_id], dict)]
    if invalid:
        raise InvalidRequest([f"{home / 'nodes.json'}: {invalid[0]} must be a JSON object"])
    paths = [path for path in (home / "scratch.json", home.parent / "scratch.json") if path.is_file()]
    scratch_path = next(iter(paths), None)
    scratch = _json(scratch_path) if scratch_path else {}
    strength = home / "kw_strength.json"
    return SavedMemory(
        persona=str(scratch.get("name") or folder.resolve().name),
        nodes=[{"node_id": node_id, **saved[node_id]} for node_id in order],
        scratch=scratch,
        kw_strength=_json(strength) if strength.is_file() else {},
        vectors=_vectors(home),
    )


def events(
    memory: SavedMemory, group_id: str, agent_id: str, *, embedding_model: str | None = ORIGINAL_MODEL
) -> list[Event]:
    """The memory as events: one a node, and last the agent's settings and counters, without what is left out.

    The vectors go along as ``embedding_model``'s; None: the service embeds the texts. Raises
    :class:`InvalidRequest` for a node with a missing or wrong field.
    """
    collected: list[Event] = []
    for node in what_fits(memory.nodes)[0]:
        try:
            collected.append(wire.build(_observation(node, memory, group_id, agent_id, embedding_model)))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest([f"{node['node_id']}: {reason}"]) from None
    configured = _configured(memory, group_id, agent_id)
    return [*collected, configured] if configured else collected


def left_out(memory: SavedMemory) -> list[str]:
    """What :func:`events` leaves out: a sentence for each value, with its node."""
    return what_fits(memory.nodes)[1]


def _observation(
    node: Mapping[str, Any], memory: SavedMemory, group_id: str, agent_id: str, embedding_model: str | None
) -> JsonObject:
    key = node["embedding_key"]
    vector = memory.vectors.get(key)
    filling = node.get("filling") or []
    payload = {
        "node_type": node["type"],
        "description": node["description"],
        # then it is the description
        "embedding_key": (key if not isinstance(key, str) or key.strip() else None),
        "subject": node["subject"],
        "predicate": node["predicate"],
        "object": node["object"],
        "keywords": node["keywords"],
        "poignancy": node["poignancy"],
        "expires_at": node.get("expiration") and _time(node["expiration"]),
        # Counted where it comes from; the counters follow with the settings.
        "historic": True,
        "provenance": {"source": "stanford", "node_id": node["node_id"]},
    }
    if vector is not None and embedding_model is not None:
        payload |= {"vector": vector, "embedding_model": embedding_model}
    if node["type"] == "chat":
        payload["utterances"] = filling
    elif isinstance(filling, str):  # the original's failed parse leaves one id as plain text
        payload["provenance"]["filling"] = filling
    else:
        payload["evidence"] = [node_uuid(group_id, agent_id, node_id) for node_id in filling]
    return {
        "type": "memory.observed",
        "event_id": node_uuid(group_id, agent_id, node["node_id"]),
        "occurred_at": _time(node["created"]),
        "group_id": group_id,
        "agent_id": agent_id,
        "payload": payload,
    }


def _configured(memory: SavedMemory, group_id: str, agent_id: str) -> Event | None:
    scratch = memory.scratch
    payload = {name: scratch[name] for name in _SETTINGS if name in scratch}
    if "importance_trigger_curr" in scratch and "importance_ele_n" in scratch:
        names = ("importance_trigger_curr", "importance_ele_n")
        payload["counters"] = {name: scratch[name] for name in names}
    if not payload:
        return None
    try:
        return wire.build(
            {
                "type": "agent.configured",
                # Of what it says: a later save of the same simulation has other counters.
                "event_id": node_uuid(group_id, agent_id, f"scratch {digest(payload)}"),
                "group_id": group_id,
                "agent_id": agent_id,
                "payload": payload,
            }
        )
    except InvalidEvent as error:
        raise InvalidRequest([f"scratch.json: {problem}" for problem in error.problems]) from None


def _places(folder: Path) -> list[Path]:
    return [folder, folder / "associative_memory", folder / "bootstrap_memory" / "associative_memory"]


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest([f"{path}: cannot be read as JSON: {error}"]) from None
    if not isinstance(content, dict):
        raise InvalidRequest([f"{path}: must hold a JSON object"])
    return content


def _vectors(home: Path) -> Mapping[str, Any]:
    if (home / "embeddings.npz").is_file():
        try:
            import numpy as np
        except ModuleNotFoundError:
            hint = "reading it needs numpy: pip install numpy"
            raise InvalidRequest([f"{home / 'embeddings.npz'}: {hint}"]) from None
        try:
            with (home / "embeddings.npz").open("rb") as file, np.load(file, allow_pickle=False) as saved:
                return dict(zip(map(str, saved["keys"]), saved["vectors"], strict=True))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise InvalidRequest([f"{home / 'embeddings.npz'}: {error}"]) from None
    return _json(home / "embeddings.json") if (home / "embeddings.json").is_file() else {}


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


#: The scale of importance; what is outside counts as unknown, which is 0.
LEAST_POIGNANCY, MOST_POIGNANCY = 1, 10
MAX_SHOWN_CHARS = 40


def what_fits(nodes: Sequence[Mapping[str, Any]]) -> tuple[list[JsonObject], list[str]]:
    """The nodes as far as they can be stored, and a sentence for each value or node left out.

    What is missing or of a wrong type stays, to be refused by name.
    """
    left_out: list[str] = []
    texts = {node["node_id"]: node.get("description") for node in nodes}
    empty = {node_id for node_id, text in texts.items() if isinstance(text, str) and not text.strip()}
    order = sorted(empty, key=lambda node_id: int(node_id.removeprefix("node_")))
    left_out += [f"{node_id}: the whole node, its description is empty" for node_id in order]
    fitting = [_fitting(node, empty, left_out) for node in nodes if node["node_id"] not in empty]
    return fitting, left_out


def _fitting(node: Mapping[str, Any], empty: set[str], left_out: list[str]) -> JsonObject:
    fitted = dict(node)

    def note(what: str) -> None:
        left_out.append(f"{node['node_id']}: {what}")

    if isinstance(keywords := node.get("keywords"), list):
        fitted["keywords"] = _keywords(keywords, note)
    for name in ("subject", "predicate", "object"):
        if isinstance(text := node.get(name), str) and len(text) > MAX_PART_CHARS:
            fitted[name] = None
            note(f"the {name}, {len(text):,} characters are more than {MAX_PART_CHARS}")
    poignancy = node.get("poignancy")
    if isinstance(poignancy, int | float) and not LEAST_POIGNANCY <= poignancy <= MOST_POIGNANCY:
        fitted["poignancy"] = None
        scale = f"between {LEAST_POIGNANCY} and {MOST_POIGNANCY}"
        note(f"the poignancy {poignancy:g}, which is not {scale}: it counts as 0")
    if isinstance(filling := node.get("filling"), list):
        node_ids = [node_id for node_id in filling if not isinstance(node_id, str) or node_id not in empty]
        fitted["filling"] = node_ids
    return fitted


def _keywords(keywords: list[Any], note: Callable[[str], None]) -> list[Any]:
    """Those that can be found: not empty, not too long, not too many."""
    short = [keyword for keyword in keywords if keyword != ""]
    if len(short) < len(keywords):
        note("an empty keyword")
    fitting = []
    for keyword in short:
        if not isinstance(keyword, str) or len(keyword) <= MAX_KEYWORD_CHARS:
            fitting.append(keyword)
        else:
            size = f"{len(keyword):,} characters are more than {MAX_KEYWORD_CHARS}"
            note(f"the keyword {keyword[:MAX_SHOWN_CHARS]!r}…, {size}")
    most = limits.MAX_KEYWORDS
    if len(fitting) > most:
        note(f"{len(fitting) - most} of {len(fitting)} keywords, more than {most} are too many")
    return fitting[:most]
