"""What the service refuses is said in the reader's language, and its templates are sentences that the service
says.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args
from uuid import uuid4

import pytest
from flask import Flask
from flask_babel import Babel, force_locale
from pydantic import BaseModel, Field, ValidationError
from pydantic_core.core_schema import ErrorType

from engine.conversations.injection import MemoryCandidate, memory_sections, style_of, why_shown
from jiyi.errors import Conflict, InvalidRequest, problems_of
from jiyi.protocol.conversations import Intent
from jiyi.text.prompt import compose
from web.admin.forms import WORDS, FormProblem, problems, refusal
from web.show import SENTENCES, intent, localize, summary, values_of, why_injected

ROOT = Path(__file__).resolve().parents[3]
CHINESE = re.compile("[一-鿿]")


@pytest.fixture
def app() -> Flask:
    app = Flask("web", root_path=str(ROOT / "web"))
    Babel(app)
    return app


class Form(BaseModel):
    count: int = Field(ge=1, le=10)
    sure: bool = True


def refused(**fields: object) -> ValidationError:
    with pytest.raises(ValidationError) as error:
        Form.model_validate(fields)
    return error.value


def test_why_a_memory_is_in_a_prompt_is_in_the_readers_language(app: Flask) -> None:
    memories = [
        MemoryCandidate(uuid4(), "session", word * 12, datetime(2026, 3, day, tzinfo=UTC), 1.0)
        for day, word in enumerate(("甲", "乙", "丙"), 1)
    ]
    retold = replace(memories[0], node_id=uuid4(), trust=1.0)
    style = style_of("markdown", "zh")
    found = (
        [*(replace(one, kind="preference") for one in memories), retold],
        [replace(memories[0], text="长" * 4_000)],
    )
    prompts = [compose(memory_sections(some, "zh", titled=True), 200, style) for some in found]
    reasons = {why_shown(written) for prompt in prompts for written in prompt.lines}
    for part in ("in the words of place", "within the floor", "shortened"):
        assert any(part in why for why in reasons)
    with app.test_request_context(), force_locale("zh"):
        assert [why for why in reasons if re.search("[a-z]", why_injected(why))] == []
        assert [name for name in get_args(Intent) if intent(name) == name] == []


def test_what_a_job_did_and_what_work_waits_for_is_in_the_readers_language(app: Flask) -> None:
    did = {"due": {"embed": 2}, "buried": 0, "accesses_recovered": 3}
    openai, keys = "openai (api.openai.com)", "JIYI_LLM_API_KEY or OPENAI_API_KEY"
    with app.test_request_context(), force_locale("zh"):
        assert summary(did) == "到期：embed 2，恢复的访问记录：3"
        refused = localize(f"{openai} refuses the key (401): check {keys}")
        assert refused == f"{openai} 拒绝了密钥（401）：请检查 {keys}"
        assert localize("something else") == "something else"
    with app.test_request_context(), force_locale("en"):
        assert summary(did | {"not_named_yet": 1}) == "due: embed 2, accesses recovered: 3, not named yet: 1"


def test_each_template_is_a_sentence_of_the_code() -> None:
    said = {
        shape
        for layer in ("jiyi", "engine", "models", "tasks")
        for path in (ROOT / layer).rglob("*.py")
        for shape in shapes(path)
    }
    ours = [one for one in SENTENCES if not one.startswith(("Input should", "String should", "Extra inputs"))]
    bare = {one: shape(re.sub(r"%\(\w+\)s", "{}", one.replace(", decided by %(name)s", ""))) for one in ours}
    assert [one for one, text in bare.items() if not {text, text.removeprefix("{} ")} & said] == []


def shapes(path: Path) -> set[str]:
    """The texts of a module, whole and without the field that they begin with, with a hole for each value."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            found.add("".join(map(str, parts)))
    return {shape(text) for text in found} | {shape(text.partition(": ")[2]) for text in found}


def shape(text: str) -> str:
    """What may be empty (``, decided by …``) is no hole of its own."""
    text = text.replace("{}{}", "{}")
    return text if text.endswith(" {}") else text.removesuffix("{}")


@pytest.mark.parametrize(
    "error",
    [
        Conflict("id: the proposal is rejected, decided by Mia; it cannot be approved now"),
        InvalidRequest(["password: a password has at least 12 characters"]),
        InvalidRequest(["files.SOUL: has the character U+200B, which nobody sees; leave it out"]),
        InvalidRequest(problems_of(refused(count=11))),
        InvalidRequest(problems_of(refused())),
    ],
)
def test_in_chinese_and_as_ever_in_english(app: Flask, error: InvalidRequest | Conflict) -> None:
    with app.test_request_context():
        with force_locale("en"):
            assert str(refusal(error).description) == str(error)
        with force_locale("zh"):
            (problem,) = refusal(error).problems
            assert problem.field == str(error).partition(": ")[0]
            assert CHINESE.search(problem.text)
            assert not re.search("should|already|only|must|has", problem.text)


def test_states_and_bounds_are_said_in_chinese_too_and_what_nobody_knows_stays_as_it_is(app: Flask) -> None:
    assert set(WORDS) <= set(get_args(ErrorType))
    with app.test_request_context(), force_locale("zh"):
        said = localize("the proposal is rejected, decided by Mia; it cannot be archived now")
        assert "已拒绝" in said and "已归档" in said and "Mia" in said
        wrong = [problem.text for problem in problems(refused(count=0, sure="perhaps"))]
        assert wrong == ["不能小于 1", "必须是“是”或“否”"]
        unknown = "100% of %(everything)s is <wrong>"
        assert FormProblem.of(f"id: {unknown}").text == unknown


def test_values_of_a_sentence() -> None:
    for template, text, values in (
        ("%(name)s is taken", "'is taken' is taken", {"name": "'is taken'"}),
        ("%(a)s of %(b)s", "1 of 2 of 3", {"a": "1", "b": "2 of 3"}),
        ("it was %(state)s already", "it was  already", None),
        ("must not be blank", "must not be blank!", None),
        ("%(a)s and %(b)s", "x or y", None),
    ):
        assert values_of(template, text) == values
