"""Questions put into words: the prompt files, and the messages made of them.

A prompt file says what to do and holds no data; memories go into a message of their own (:mod:`engine.providers.llms.blocks`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.providers.llms.blocks import block_of
from engine.providers.llms.questions import Question
from jiyi.errors import SettingsError
from jiyi.protocol.wire.json_values import JsonMapping
from jiyi.settings import get_settings
from jiyi.text.words import Language

#: What holds for every prompt: data is no instruction, and what an answer looks like.
FRAME = "frame"

_FILE = re.compile(r"---\nname: (?P<name>\w+)\nversion: (?P<version>[\w.-]{1,20})\n---\n(?P<body>.*\S)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file."""

    name: str
    version: str
    body: str


def signature(question: type[Question[Any]] | Question[Any], language: Language = "en") -> str:
    """What is kept as provenance: ``insights@1``. Raises as :func:`prompt` does."""
    found = prompt(question.prompt, language)
    return f"{found.name}@{found.version}"


def prompt(name: str, language: Language) -> Prompt:
    """The prompt ``<name>.<language>.md``: from ``JIYI_LLM_PROMPTS`` if it is there, else Jiyi's own.

    Raises:
        SettingsError: the file in ``JIYI_LLM_PROMPTS`` has no header, or another prompt's.
    """
    return _load(get_settings().llm_prompts, f"{name}.{language}.md", name)


@lru_cache(maxsize=64)
def _load(folder: str, file: str, name: str) -> Prompt:
    own = Path(folder) / file
    changed = bool(folder) and own.is_file()
    text = own.read_text("utf-8") if changed else files("engine.providers.llms").joinpath("prompts", file).read_text("utf-8")
    match = _FILE.match(text.replace("\r\n", "\n"))
    if match is None or match["name"] != name:
        raise SettingsError(f"JIYI_LLM_PROMPTS: {file} must begin with ---, name: {name}, version: …, --- (docs/deployment.md)")
    return Prompt(match["name"], match["version"], match["body"].strip())


def messages(question: Question[Any], schema: JsonMapping) -> list[dict[str, str]]:
    """What is sent to a chat model; the data in it has at most ``JIYI_LLM_PROMPT_CHARS`` characters."""
    task, frame = prompt(question.prompt, question.language).body, prompt(FRAME, question.language).body
    return [
        {"role": "system", "content": f"{task}\n\n{frame}\n{json.dumps(schema, ensure_ascii=False)}"},
        {"role": "user", "content": block_of(question, get_settings().llm_prompt_chars).text},
    ]
