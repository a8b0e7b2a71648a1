"""An LLM's server that answers at once what rules find in the question: what questions cost is counted on it.

It reads the question back from the prompt, keeps to ``max_tokens``, and counts as tokens what a request
holds, its schema with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal, cast

from bench.support.endpoint import listening
from engine.conversations.notes import Experiences, Lived, LivedThrough, Note, Noted, Notes
from engine.growth import questions as _growth  # noqa: F401 – its questions have rules
from engine.providers.llm_prompts import BEGIN, END, prompt
from engine.providers.questions import Extraction, Question
from engine.rules.provider import RULES, Rules
from jiyi.protocol.conversations import CombinedExtraction, Message
from jiyi.text.budget import cut_to_tokens, estimate_tokens

QUESTIONS: dict[str, type[Question[Any]]] = {
    cls.prompt: cls for cls in cast("Iterable[type[Question[Any]]]", RULES)
}
QUESTIONS |= {"extraction": Notes, "experiences": Experiences}
_ROW = re.compile(r'(?P<label>[\w ]+): (?P<text>".*")')
_NUMBERED = re.compile(r"(?:L|S|line |statement )(?P<number>\d+)")
#: A line of a conversation: name, role, day.
_SAID = re.compile(
    r"(?P<name>.*?) \((?P<role>user|assistant|system|tool)(?:, (?P<day>[\d-]+))?\): (?P<text>.*)", re.DOTALL
)
_SINCE = re.compile(r"\d+")


def answer(question: Question[Any]) -> Any:
    """What rules find, as an LLM is asked for it."""
    if not isinstance(question, Notes | Experiences):
        return Rules().ask(question)
    fields = {
        "agent_id": question.agent_id,
        "language": question.language,
        "messages": question.messages,
        "since": question.since,
    }
    found: CombinedExtraction = Rules().ask(Extraction(**fields, known=getattr(question, "known", [])))
    if isinstance(question, Notes):
        return Noted(
            memories=[
                Note(
                    content=one.content,
                    type=one.type,
                    about=one.subject,
                    importance=one.importance,
                    lines=one.turns,
                    ends=one.supersedes,
                )
                for one in found.memories
            ]
        )
    return LivedThrough(
        experiences=[
            Lived(
                problem=one.pain_pattern,
                steps=one.solution_steps,
                outcome=one.outcome,
                tools=one.tools_used,
                lines=one.turns,
            )
            for one in found.experiences
        ]
    )


def serving() -> AbstractContextManager[str]:
    """Its address, with ``/v1``, while it runs."""
    return listening(lambda request: json.dumps(completion(request, answer), ensure_ascii=False).encode())


def completion(request: dict[str, Any], answer: Callable[[Question[Any]], Any]) -> dict[str, Any]:
    """The answer to a request for a chat completion."""
    form, sent = request.get("response_format", {}), request["messages"]
    said = answer(question_in(sent, form["json_schema"]["name"])).model_dump_json() if form else "OK."
    most = request.get("max_tokens") or request["max_completion_tokens"]
    used, kept = estimate_tokens(said), cut_to_tokens(said, most)
    taken = sum(estimate_tokens(one["content"]) for one in sent) + (
        estimate_tokens(json.dumps(form, ensure_ascii=False)) if form else 0
    )
    return {
        "choices": [
            {
                "finish_reason": "length" if used > most else "stop",
                "message": {"role": "assistant", "content": kept},
            }
        ],
        "usage": {"prompt_tokens": taken, "completion_tokens": min(used, most)},
    }


def question_in(sent: list[dict[str, str]], name: str) -> Question[Any]:
    """The question that a prompt puts into words."""
    task, data = sent[0]["content"], sent[1]["content"].split(BEGIN)[1].split(END)[0]
    language: Literal["en", "zh"] = "zh" if task.startswith(prompt(name, "zh").body) else "en"
    rows = {match["label"]: json.loads(match["text"]) for match in _ROW.finditer(data)}
    numbered = {label: text for label, text in rows.items() if _NUMBERED.fullmatch(label)}
    lines = [text for label, text in numbered.items() if label[0].upper() == "L"]
    statements = [text for label, text in numbered.items() if label[0].upper() == "S"]
    count = re.search(r"^count: (\d+)$", data, re.MULTILINE)
    since = _SINCE.search(rows.get("about", ""))
    cls = QUESTIONS[name]
    fields = {
        **{
            label.replace(" ", "_"): text
            for label, text in rows.items()
            if label not in numbered and label != "agent"
        },
        "agent_id": rows["agent"],
        "language": language,
        "statements": statements,
        "known": [{"content": text} for text in statements],
        "utterances": [tuple(line.split(": ", 1)) for line in lines],
        "messages": [_message(line) for line in lines] if "messages" in cls.model_fields else [],
        "since": int(since[0]) if since else 0,
        "count": int(count[1]) if count else 0,
    }
    return cls(**{field: value for field, value in fields.items() if field in cls.model_fields})


def _message(line: str) -> Message:
    match = _SAID.fullmatch(line)
    assert match is not None, f"no line of a conversation: {line!r}"
    named = match["name"] if match["name"] != match["role"] else None
    return Message(
        role=match["role"],
        name=named,
        text=match["text"],
        at=f"{match['day']}T12:00:00Z" if match["day"] else None,
    )
