"""What still holds is shown without a mark, whatever was said later of something near it; a wrong mark is
worse than none.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from jiyi.protocol.conversations import ContextRequest
from jiyi.text.prompt import EARLIER, RENEWED
from models.db.actions import Actor
from models.operations.embedding_models import EMBED
from tasks.conversations import injection
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tests.integration.conversations.talk import START, say, talked

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: How each mark begins.
MARKS = {form.partition("{")[0] for forms in (EARLIER, RENEWED) for form in forms.values()}


def context(group: str, question: str, older: str, newer: str) -> list[str]:
    """Lines of the context after two conversations, some days apart."""
    say(group, older)
    talked(group, newer, session_id="s2", start=START + timedelta(days=4))
    run_until_idle(EMBED, embed)
    asked = ContextRequest(agent_id="helper", query=question, max_tokens=2_000)
    return injection.build(Actor(group, "test"), asked).context.splitlines()


def marked(lines: list[str], word: str) -> bool:
    held = [line for line in lines if word in line]
    assert held, lines
    return any(mark in line for line in held for mark in MARKS)


@pytest.mark.parametrize(
    ("older", "newer", "question", "word"),
    [
        ("I'm allergic to shrimp, it put me in hospital.", "I eat fish now.", "Can I eat shrimp?", "shrimp"),
        (
            "I live in Oslo, in a flat by the river.",
            "I was in Rome last weekend, lovely city.",
            "Where do I live?",
            "Oslo",
        ),
        ("I have a cat called Miso.", "My sister has got a dog now.", "Which pet do I have?", "Miso"),
        ("我对虾过敏，进过医院。", "我现在吃鱼了。", "我能吃虾吗？", "虾"),
        ("我住在杭州，房子在河边。", "上周末我去了北京玩。", "我住在哪里？", "杭州"),
        ("我养了一只猫，叫米粒。", "我妹妹现在养狗了。", "我养了什么宠物？", "米粒"),
    ],
    ids=["an allergy", "a home", "a cat", "过敏", "住处", "猫"],
)
def test_what_still_holds_is_not_marked(group: str, older: str, newer: str, question: str, word: str) -> None:
    assert not marked(context(group, question, older, newer), word)


@pytest.mark.parametrize(
    ("older", "newer", "question", "word"),
    [
        ("I live in Oslo, in a flat by the river.", "I moved to Rome.", "Where do I live?", "Oslo"),
        ("我住在杭州，房子在河边。", "我搬到北京住了，不住杭州了。", "我住在哪里？", "河边"),
    ],
    ids=["a home", "住处"],
)
def test_what_was_changed_in_words_is_marked(
    group: str, older: str, newer: str, question: str, word: str
) -> None:
    """Else the test above would hold of a service that marks nothing."""
    assert marked(context(group, question, older, newer), word)
