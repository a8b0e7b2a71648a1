"""Questions put into words: a prompt file says what to do and holds no data, and the data go into a block
that nothing in it can end.

The block has a greatest length: long texts are shortened, all to the same length, and if even that is too
much the last ones are left out. Both is said in the block.

Usage of the questions to an LLM: :func:`on_usage` registers a listener that accounts for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from engine.providers.questions import Question
from jiyi.errors import SettingsError
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.numbered import LINE, NUMBERED, STATEMENT
from jiyi.settings import get_settings
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import quoted
from jiyi.text.words import Language

#: What holds for every prompt: data is no instruction, and what an answer looks like.
FRAME = "frame"
#: Where prompt files of one's own lie, below ``JIYI_HOME``.
FOLDER = "prompts"
#: Longest data of a prompt, in characters and in tokens: longer statements are shortened to fit.
PROMPT_CHARS, PROMPT_TOKENS = 24_000, 6_000
#: Of a model's context, tokens for the task and a schema in words; and the least that is left for data.
INSTRUCTION_TOKENS, LEAST_DATA_TOKENS = 1_200, 400
#: An answer has at most one part of so many of the context: with less data there is less to answer.
ANSWER_PART = 3

_FILE = re.compile(
    r"---\nname: (?P<name>\w+)\nversion: (?P<version>[\w.-]{1,20})\n---\n(?P<body>.*\S)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt file."""

    name: str
    version: str
    body: str


def signature(question: type[Question[Any]] | Question[Any], language: Language = "en") -> str:
    """What is kept as provenance: ``insights@1``. Raises as :func:`prompt` does."""
    file = prompt(question.prompt, language)
    return f"{file.name}@{file.version}"


def prompt(name: str, language: Language) -> PromptFile:
    """The prompt ``<name>.<language>.md``: from the folder ``prompts`` below ``JIYI_HOME`` if it is there,
    else Jiyi's own.

    Raises:
        SettingsError: the file in that folder has no header, or another prompt's.
    """
    return _load(get_settings().home / FOLDER, f"{name}.{language}.md", name)


@lru_cache(maxsize=64)
def _load(folder: Path, file: str, name: str) -> PromptFile:
    own = folder / file
    ours = files(__package__).joinpath("prompts", file)
    text = (own if own.is_file() else ours).read_text("utf-8")
    match = _FILE.match(text.replace("\r\n", "\n"))
    if match is None or match["name"] != name:
        raise SettingsError(f"{own} must begin with ---, name: {name}, version: …, --- (docs/deployment.md)")
    return PromptFile(match["name"], match["version"], match["body"].strip())


def data_tokens() -> int:
    """Tokens of data of one question: as many as the model's context leaves, as far as that is known."""
    context = get_settings().llm_context or _served
    if not context:
        return PROMPT_TOKENS
    return min(PROMPT_TOKENS, max(LEAST_DATA_TOKENS, context - answer_tokens() - INSTRUCTION_TOKENS))


def answer_tokens() -> int:
    """Tokens that an answer may have: as many as are set, and of a small context a part."""
    settings = get_settings()
    context = settings.llm_context or _served
    return min(settings.llm_max_tokens, context // ANSWER_PART) if context else settings.llm_max_tokens


_served = 0


def note_context(tokens: int) -> None:
    """The LLM's server says that it reads so many tokens; 0: it does not say."""
    global _served  # noqa: PLW0603 – one of each process
    _served = tokens


#: What an answer looks like, after the data: small models keep to what they read last.
_FORM = {
    "en": (
        "Answer with exactly one JSON object and nothing before or after it.",
        "Its form, with … and 0 where your own words and numbers go:",
    ),
    "zh": ("只用一个 JSON 对象回答，前后不要有任何其他内容。", "形式如下，… 和 0 处换成你自己的文字和数字："),
}


def messages(question: Question[Any], example: str = "") -> list[dict[str, str]]:
    """What is sent to a chat model; the data in it has at most :data:`PROMPT_CHARS` characters.

    ``example``: the answer's form (:func:`example_of`), for servers that are sent no schema.
    """
    task, frame = prompt(question.prompt, question.language).body, prompt(FRAME, question.language).body
    data, instruction = block_of(question, most_chars(question)).text, form(question.language, example)
    user = {"role": "user", "content": f"{data}\n\n{instruction}"}
    return [{"role": "system", "content": f"{task}\n\n{frame}"}, user]


def form(language: Language, example: str = "") -> str:
    """What an answer looks like, in words."""
    sentence, introduction = _FORM[language]
    return f"{sentence} {introduction}\n{example}" if example else sentence


def example_of(schema: JsonMapping, language: Language) -> str:
    """The schema's form, ``{"subject": "…", "evidence": [0]}``, and its fields' descriptions."""
    definitions = cast("JsonMapping", schema.get("$defs", {}))
    described: dict[str, str] = {}
    text, colon = _filled(schema, definitions, described), "：" if language == "zh" else ": "
    return "\n".join([text, *(f"{name}{colon}{words}" for name, words in described.items())])


#: What stands for a value of a type: for a text, what is refused as one (``engine.providers.replies``).
_FILLING = {"integer": "0", "number": "0", "boolean": "false"}


def _filled(schema: Any, definitions: JsonMapping, described: dict[str, str]) -> str:
    if reference := schema.get("$ref"):
        schema = definitions[str(reference).rpartition("/")[2]]
    if "anyOf" in schema:  # or null
        schema = schema["anyOf"][0]
    if choices := schema.get("enum"):
        return json.dumps("|".join(map(str, choices)), ensure_ascii=False)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        for name, part in fields.items():
            if words := part.get("description"):
                described.setdefault(name, words)
        filled = {name: _filled(part, definitions, described) for name, part in fields.items()}
        return f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in filled.items())}}}"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        # Numbers of statements that may be left out: models copy what they see.
        numbers = items.get("type") == "integer" or items.get("pattern") in NUMBERED
        left_out = numbers and schema.get("default") == []
        return "[]" if left_out else f"[{_filled(items, definitions, described)}]"
    return NUMBERED.get(schema.get("pattern", "")) or _FILLING.get(schema.get("type", ""), '"…"')


def most_chars(question: Question[Any]) -> int:
    """As many as its texts have in :func:`data_tokens`: a Chinese character is a token or more."""
    text = "\n".join(text[:PROMPT_CHARS] for _, text in _rows(question))[: 2 * PROMPT_CHARS]
    chars = int(len(text) * data_tokens() / max(1, estimate_tokens(text)))
    return max(LEAST_CHARS * 50, min(PROMPT_CHARS, chars))


BEGIN, END = "<data>", "</data>"
#: No text is shortened below this: less says nothing.
LEAST_CHARS = 40
#: Characters of the agent's name, and of a speaker's.
NAME_CHARS = 200
#: For the marks of the block and the note on what was left out.
FRAME_CHARS = 120
#: Around each text: a colon, a space, two quotes, the end of the line.
ROW_CHARS = 5
#: … of which are the quotes.
QUOTES = 2


@dataclass(frozen=True, slots=True)
class Block:
    """``shortened`` texts and ``left_out`` ones are those that the greatest length did not allow."""

    text: str
    shortened: int
    left_out: int


def block_of(question: Question[Any], limit: int) -> Block:
    """The block of a question, of at most ``limit`` characters (``limit`` ≥ 2,000)."""
    head = [f"agent: {quoted(question.agent_id, NAME_CHARS)}"]
    if (count := getattr(question, "count", None)) is not None:
        head.append(f"count: {count}")
    room = limit - FRAME_CHARS - sum(map(len, head))
    # What is longer than the whole block need not be looked at to its end.
    rows = [(label, text[:limit]) for label, text in _rows(question)]
    sizes = [len(quoted(text)) - QUOTES for _, text in rows]
    around = [len(label) + ROW_CHARS for label, _ in rows]
    least = accumulate(length + min(size, LEAST_CHARS) for length, size in zip(around, sizes, strict=True))
    row_count = sum(total <= room for total in least)
    share = _share(sizes[:row_count], room - sum(around[:row_count]))
    lines = [f"{label}: {quoted(text, share)}" for label, text in rows[:row_count]]
    if row_count < len(rows):
        lines.append(f"({len(rows) - row_count:,} more were left out for lack of room)")
    shortened = sum(size > share for size in sizes[:row_count])
    return Block("\n".join([BEGIN, *head, *lines, END]), shortened, len(rows) - row_count)


def shown_chars(text: str) -> int:
    """How many characters a text has in a block."""
    return len(quoted(text))


def _rows(question: Question[Any]) -> Iterator[tuple[str, str]]:
    """Labels and texts; what may be left out comes last."""
    for field in ("kind", "about", "focal_point", "text"):
        if value := getattr(question, field, ""):
            yield field.replace("_", " "), value
    for number, statement in enumerate(getattr(question, "statements", ())):
        yield f"{STATEMENT}{number}", statement
    for number, (speaker, utterance) in enumerate(getattr(question, "utterances", ())):
        yield f"{LINE}{number}", f"{speaker[:NAME_CHARS]}: {utterance}"


def _share(sizes: list[int], room: int) -> int:
    """The greatest length that all texts may have: what short ones do not need, longer ones get."""
    remaining = sorted(sizes)
    while remaining and remaining[0] * len(remaining) <= room:
        room -= remaining.pop(0)
    return room // len(remaining) if remaining else max(sizes, default=0)


#: Prices are per so many tokens.
PRICED_TOKENS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Something to count of a prompt: a question with all its tries, or what became of its answer later."""

    #: The prompt's name and version: ``insights@1``.
    prompt: str
    model: str
    #: Whose it was; empty where the question does not say.
    group_id: str
    #: Questions that were answered, and those whose answer could not be used.
    questions: int = 0
    unusable: int = 0
    #: Usable answers that were not the first.
    repaired: int = 0
    #: Questions that rules answered in the LLM's place.
    by_rules: int = 0
    #: Entries of usable answers that were left out.
    dropped: int = 0
    #: Of all questions together, and of their tries.
    seconds: float = 0.0
    #: Requests, and those without a usable answer.
    calls: int = 0
    failures: int = 0
    #: As the vendor counts them; 0 where it does not.
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: In the currency of ``JIYI_LLM_PRICES``; 0 where none are set.
    cost: float = 0.0


_listener: Callable[[Usage], None] | None = None
_allowance: Callable[[str], None] | None = None


def on_question(allowance: Callable[[str], None] | None) -> None:
    """Have it called before each question with its group; it raises :class:`LLMUnavailable` to refuse."""
    global _allowance  # noqa: PLW0603 – one of each process
    _allowance = allowance


def allow(group_id: str) -> None:
    """Raises :class:`LLMUnavailable` if the group may not ask now."""
    if _allowance is not None:
        _allowance(group_id)


def on_usage(listener: Callable[[Usage], None] | None) -> None:
    """Have it called after each question, in the thread that asked; it must not raise. None: nobody."""
    global _listener  # noqa: PLW0603 – one of each process
    _listener = listener


def report(usage: Usage) -> None:
    """Pass the usage to the listener, if there is one."""
    if _listener is not None:
        _listener(usage)


def count(model: str, question: Question[Any], **numbers: int) -> None:
    """Count what became of a question to a model, by the fields of :class:`Usage`."""
    prompt = signature(question, question.language)
    report(Usage(prompt=prompt, model=model, group_id=question.group_id, **numbers))


def cost_of(prompt_tokens: int, completion_tokens: int, prices: tuple[float, float]) -> float:
    """What so many tokens cost at ``prices`` per million, of the prompt and of the answer."""
    return (prompt_tokens * prices[0] + completion_tokens * prices[1]) / PRICED_TOKENS
