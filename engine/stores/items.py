"""What a store keeps of a text: what counts of it, its summary and metadata, and one vector however long it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from jiyi.protocol.base import JsonObject
from jiyi.protocol.stores import AttachmentNote, Snapshot
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.snapshots import PREVIEW_CHARS
from jiyi.stores.types import MAX_CONTENT_LENGTH, ChunkStrategy, EmbeddingParams
from jiyi.text.splitting import sentences

#: A summary with its labels of fewer characters says nothing.
LEAST_SUMMARY = 20


def summary_of(inputs: str, output: str) -> str:
    """What an item is found by: what counts of the input and of the output, with a label each."""
    return f"Input: {inputs}\nOutput: {output}"


def without_labels(summary: str) -> str:
    """What a summary says, for what compares texts: its labels are in every one."""
    first, _, second = summary.partition("\nOutput: ")
    if not first.startswith("Input:"):
        return summary
    return "\n".join(part for part in (first.removeprefix("Input:").strip(), second.strip()) if part)


def noted_text(inputs_text: str, given: Snapshot | None, output: Snapshot | None) -> str:
    """What a blackboard notes: the output, else the input, else the text of the inputs."""
    texts = (output.text if output else "", given.text if given else "", inputs_text)
    return next((text.strip() for text in texts if text.strip()), "")


def metadata_of(role: str, inputs_text: str, attached: Sequence[AttachmentNote], content_length: int | None = None) -> JsonObject:
    """Who said it, the beginning of what went in, what was attached."""
    length = {} if content_length is None else {"content_length": content_length}
    return {
        "agent_role": role,
        "input_preview": inputs_text[:PREVIEW_CHARS],
        **length,
        "attachments": [note.model_dump() for note in attached],
    }


#: A text up to here is taken as it is.
SHORT = 100
#: What follows a text that was cut.
CUT = "..."
#: Characters of a text that are looked at: more than the longest that may count.
LOOKED_AT = 40_000

#: Instructions, at the beginning only, each up to its comma or sentence end. Their articles tell "You are a poet," from "You are right,".
_PREFIX = re.compile(
    r"[ \t\n]{0,10}(?:(?:Agent|Model) Role:[^\n]{0,300}\n[ \t]{0,10}\n"
    r"|You are (?:an?|the) [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|(?:The )?[Uu]ser will input [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|You need to [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|你是一[位个名][^,，。！？\n]{0,200}[,，。！]"
    r"|用户(?:将|会)输入[^,，。！？\n]{0,200}[,，。！]"
    r"|你需要[^,，。！？\n]{0,200}[,，。！])"
)
#: Prefixes after each other, at most.
MAX_PREFIXES = 5


def key_content(text: str, max_length: int = MAX_CONTENT_LENGTH) -> str:
    """What counts of a text, of a question as of what is stored: at most ``max_length`` characters and perhaps a mark that it was cut.

    Instructions to an agent ("You are a poet, …") say nothing of what to look for, and are left out where they begin a long text.
    """
    text = text[:LOOKED_AT]
    if len(collapsed := " ".join(text.split())) <= SHORT:
        return collapsed
    start = 0
    for _ in range(MAX_PREFIXES):
        prefix = _PREFIX.match(text, start)
        if prefix is None:
            break
        start = prefix.end()
    rest = " ".join(text[start:].split()) or collapsed
    return _cut(rest, max_length)


def _cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, whole sentences if the first ones fill half of the room."""
    if len(text) <= most:
        return text
    end = 0
    for sentence in sentences(text[: most + 1]):
        after = text.find(sentence, end) + len(sentence)
        if after > most:
            break
        end = after
    return text[:end] if end >= most // 2 else f"{text[:most].rstrip()}{CUT}"


#: Headers that the original puts before what comes from other nodes: ``=== INPUT FROM research (user) ===``.
_HEADER = re.compile(r"^={3,10} ?INPUT FROM [^\n=]{1,200}={3,10}[ \t]{0,20}$", re.MULTILINE | re.IGNORECASE)


def without_headers(text: str) -> str:
    """What was said, without where it came from."""
    return _HEADER.sub("", text).strip()


#: Pieces of one text that are embedded; what follows counts no more.
MAX_PIECES = 64


def pieces(text: str, params: EmbeddingParams) -> list[str]:
    """What of a text is embedded: its beginning, or pieces of half of ``max_length`` each."""
    if not params.use_chunking or len(text) <= params.max_length:
        return [text[: params.max_length]]
    size = params.max_length // 2
    most = 1 if params.chunk_strategy == "first" else MAX_PIECES
    return [text[start : start + size] for start in range(0, min(len(text), size * most), size)]


def combine(vectors: Float32, strategy: ChunkStrategy) -> Float32:
    """The vector of a text from those of its pieces, of length 1 again."""
    if strategy == "first" or len(vectors) == 1:
        joined = vectors[0]
    elif strategy == "weighted":
        joined = np.average(vectors, axis=0, weights=[1 / (place + 1) for place in range(len(vectors))])
    else:
        joined = vectors.mean(axis=0)
    length = float(np.linalg.norm(joined))
    if not np.isfinite(length) or length == 0:
        raise ValueError("the pieces' vectors add up to nothing")
    result: Float32 = (joined / length).astype(np.float32)
    return result


def embed(texts: Sequence[str], params: EmbeddingParams, passages: Callable[[Sequence[str]], Float32]) -> Float32:
    """A vector for each text, all pieces in one call."""
    parts = [pieces(text, params) for text in texts]
    vectors = passages(list(chain.from_iterable(parts)))
    by_text = np.split(vectors, np.cumsum([len(cut) for cut in parts])[:-1])
    return np.stack([combine(of_text, params.chunk_strategy) for of_text in by_text])


def model_name(model: str, params: EmbeddingParams) -> str:
    """The name that goes with vectors: texts cut in other ways have other vectors."""
    if not params.use_chunking:
        return model
    return f"{model}+{params.chunk_strategy}{params.max_length}"
