"""No text, however it is made, takes time that grows with the square of its length: every pattern, and every
function of a text.

A worker holds Python's lock while it matches: 20,000 characters that take two seconds stop all its threads,
and an erasure looks through everybody's texts with the same functions.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from engine.conversations.statements import READ_CHARS
from engine.erasure import Names, Whom
from engine.providers import questions
from engine.providers.embedders import HashingEmbedder
from engine.providers.llm_prompts import on_usage
from engine.rules.provider import Rules
from engine.times import past
from tests.unit import adversarial

pytestmark = pytest.mark.timeout(300)

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("jiyi", "engine", "models", "tasks", "workers", "web")
NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)
RULES = Rules()
#: Without what runs when it is imported, and what only people who type commands meet.
SKIPPED = re.compile(
    r"__main__|jiyi\.cli|jiyi\.client|workers\.(app|intake|heartbeat|beat|bootstrap|demo|up)|web\.serve"
)
#: Packages whose functions of a text are all tried.
OF_TEXTS = tuple(
    "jiyi.text jiyi.tiers jiyi.protocol.events engine.erasure engine.memory engine.reflection engine.retrieval"
    " engine.rules engine.operations engine.text.keywords engine.providers.llm_prompts"
    " engine.providers.openai_compatible engine.providers.replies"
    " engine.providers.remote web.show".split()
)
#: Functions that take a name that the service itself chose, a file, or one word that others have cut out and
#: measured.
NO_TEXTS = set(
    "engine.rules.triples.read engine.rules.triples.word_list engine.rules.topics.fitness_of"
    " engine.providers.embedder_specs.thresholds_of engine.times.past.weekday_of engine.operations.find"
    " jiyi.text.words.word_tokens jiyi.text.words.stem jiyi.text.prompting.is_hidden".split()
)


def _statements(text: str) -> list[str]:
    return [text[start : start + 500] for start in range(0, len(text), 500)]


def _ask(question: type[Any], **fields: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: RULES.ask(
        question(agent_id="Maria", **{name: make(text) for name, make in fields.items()})
    )


#: What takes more than a text, with the rest filled in.
WITH_MORE: dict[str, Callable[[str], Any]] = {
    "a person's names": Names(["Maria Lopez", "玛丽亚"]).found_in,
    "a name that is long": lambda text: Names([text[:200]]).found_in(text),
    "an agent's name": Whom(agents=["Maria"]).is_named_in,
    "days": lambda text: past.named_spans(text, NOW),
    "embedding without a model": HashingEmbedder(64).query,
    "a conversation of many long utterances": lambda text: RULES.ask(questions.Memo(agent_id="Maria", utterances=[("Maria", text)] * 5)),
    **{
        f"the rules' {question.__name__}": _ask(question, **fields)
        for question, fields in {
            questions.Poignancy: {"text": str},
            questions.Triple: {"text": str},
            questions.Keywords: {"text": str},
            questions.FocalPoints: {"statements": _statements, "count": lambda _: 3},
            questions.Insights: {"statements": _statements, "count": lambda _: 3, "focal_point": lambda text: text[:500]},
            questions.Planning: {"utterances": lambda text: [("Maria", text)]},
            questions.Memo: {"utterances": lambda text: [("Maria", text)]},
            questions.Digest: {"statements": _statements},
        }.items()
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def _all_modules() -> list[ModuleType]:
    found = []
    for package in PACKAGES:
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not SKIPPED.search(info.name):
                try:
                    found.append(importlib.import_module(info.name))
                except ModuleNotFoundError as missing:
                    # An adapter whose framework is in none of the environments for development.
                    ours = str(missing.name).startswith(PACKAGES)
                    if ours or not info.name.startswith("jiyi.integrations."):
                        raise
    # The tasks' modules have what is asked of LLMs counted in a database, which other tests do not have.
    on_usage(None)
    return found


def _patterns_in(name: str, value: object) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, tuple | list | set | frozenset):
        for place, item in enumerate(value):
            yield from _patterns_in(f"{name}[{place}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _patterns_in(f"{name}[{key!r}]", item)


def _patterns() -> dict[str, re.Pattern[str]]:
    found: dict[Any, str] = {}
    for module in _all_modules():
        for name, value in vars(module).items():
            for path, pattern in _patterns_in(f"{module.__name__}.{name}", value):
                if path.split(".")[0] in PACKAGES:
                    found.setdefault(pattern, path)
    return {path: pattern for pattern, path in found.items() if isinstance(pattern.pattern, str)}


def _functions() -> dict[str, Callable[[str], Any]]:
    """Functions of one text, and nothing else that they need."""
    found: dict[str, Callable[[str], Any]] = {}
    for module in _all_modules():
        if not module.__name__.startswith(OF_TEXTS):
            continue
        for name, value in vars(module).items():
            # A cache would answer the second time.
            function = inspect.unwrap(value) if callable(value) else value
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            needed = [
                one for one in inspect.signature(function).parameters.values() if one.default is one.empty
            ]
            if [str(one.annotation) for one in needed] in (["str"], ["str | None"]):
                found[f"{module.__name__}.{name}"] = function
    return found


Functions = dict[str, Callable[[str], Any]]
#: Patterns that look at messages, of which only the beginning is read (``READ_CHARS``); and how many of the
#: phrases are tried.
_READING = "attributes endings extract forgetting injection memories standing statements whose"
_ASKING = "ASK ACT DECLINE REPORTED TENSE NOW DEPENDS FRAME"
OF_MESSAGES = (
    *(f"engine.conversations.{name}." for name in _READING.split()),
    *(f"engine.appointments.parse._{name}" for name in _ASKING.split()),
    "engine.growth.",
    "jiyi.text.clauses.",
    "jiyi.text.kept.",
)
SAMPLED = 10
PATTERNS = _patterns()
FUNCTIONS = {name: one for name, one in _functions().items() if name not in NO_TEXTS} | WITH_MORE


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_every_pattern_is_linear(name: str) -> None:
    pattern = PATTERNS[name]
    functions: Functions = {
        "finditer": lambda text: sum(1 for _ in pattern.finditer(text)),
        "fullmatch": pattern.fullmatch,
    }
    literals = adversarial.literals(pattern)
    if name.startswith(OF_MESSAGES):
        # Hundreds of phrases each, and never more than the first characters of a message: a sample of what
        # may be said.
        some = set(sorted(literals)[:: max(1, len(literals) // SAMPLED)])
        _check(functions, some, adversarial.UNITS[::SAMPLED], READ_CHARS // adversarial.LONGER)
    else:
        _check(functions, literals)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_a_text_is_linear(name: str) -> None:
    function = FUNCTIONS[name]

    def whatever_it_says(text: str) -> None:
        with suppress(ValueError, yaml.YAMLError):  # a refusal is an answer
            function(text)

    _check({name: whatever_it_says}, set())


def _check(
    functions: Functions,
    more_units: set[str],
    units: Sequence[str] = adversarial.UNITS,
    characters: int = adversarial.SHORT,
) -> None:
    found = []
    for unit in [*units, *sorted(more_units)]:
        short, long = adversarial.inputs(unit, characters)
        for name, function in functions.items():
            if (ratio := adversarial.slow(function, short, long)) is not None:
                times = f"{ratio:.1f} times as long as a quarter of it"
                found.append(f"{name} of {unit!r} × {len(long):,}: {times}")
    assert not found, found


def test_all_is_looked_at() -> None:
    """The walk finds what it is meant to find: were a module skipped, its patterns would be linear by
    definition.
    """
    walked = {module.__name__ for module in _all_modules()}
    files = [
        path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py") if "cli" not in path.parts
    ]
    has_pattern = re.compile(r"^_?[A-Z_]+ = re\.compile\(", re.MULTILINE)
    with_patterns = {
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for path in files
        if has_pattern.search(path.read_text("utf-8"))
    }
    assert with_patterns
    assert with_patterns <= walked
    assert len(PATTERNS) > 60
    patterns = {"engine.erasure._ESCAPE", "engine.rules.provider._NUMBER", "engine.times.past._HINT"}
    assert patterns <= PATTERNS.keys()
    functions = {"jiyi.text.words.normalise", "jiyi.text.words.tokens", "engine.erasure.unescaped"}
    assert functions <= FUNCTIONS.keys()


def test_the_measure_finds_a_square_and_lets_a_line_pass() -> None:
    square = re.compile(r"\\+u")
    short, long = adversarial.inputs("\\")
    assert adversarial.slow(lambda text: square.sub("", text), short, long) is not None
    assert adversarial.slow(lambda text: [ord(char) for char in text], short, long) is None
