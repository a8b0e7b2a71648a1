"""A companion that remembers its people: sessions days apart, in Chinese and in English, with no LLM at all.

    python -m examples.companion [--json]

What the model would get is shown for each question: the prompt, its tokens, and whether it holds what only the first session
told. In a program of your own the model is a line of the `openai` client, as in ``ask_openai`` below.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from examples.service import service
from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.text.budget import estimate_tokens

SYSTEM = "You are a kind companion."
#: Seconds that what was said may take to be extracted, and between two looks.
SETTLE_SECONDS, PAUSE = 60.0, 0.2

Message = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """What was said in sessions days apart, and the questions of the last one with a word that their answers must hold."""

    agent_id: str
    sessions: tuple[tuple[tuple[str, str], ...], ...]
    questions: tuple[tuple[str, str], ...]


SCENES = {
    "zh": Scene(
        "小伴",
        (
            (
                ("user", "你好，我叫林岚，在景德镇开了一家陶坊。"),
                ("assistant", "林岚你好，很高兴认识你。"),
                ("user", "我对花生过敏，一点都不能吃。"),
                ("assistant", "记住了。"),
                ("user", "我女儿的生日是3月2日，她叫小满。"),
                ("assistant", "小满，真好听。"),
            ),
            (("user", "今天天气不错。"), ("assistant", "是啊，适合晒坯。"), ("user", "先忙去了。"), ("assistant", "好的，回头聊。")),
        ),
        (("帮我推荐一道下酒菜，有什么要避开的吗？我对什么过敏？", "花生"), ("我女儿叫什么名字？", "小满"), ("你还记得我是谁吗？", "林岚")),
    ),
    "en": Scene(
        "companion",
        (
            (
                ("user", "Hi, my name is Anna and I live in Porto."),
                ("assistant", "Nice to meet you, Anna."),
                ("user", "I work as a nurse, mostly at night."),
                ("assistant", "That must be hard."),
                ("user", "I am allergic to penicillin."),
                ("assistant", "Good to know."),
            ),
            (("user", "What a rainy day."), ("assistant", "Indeed."), ("user", "Talk to you later."), ("assistant", "See you.")),
        ),
        (("Which medicine must I avoid?", "penicillin"), ("Where do I live?", "Porto"), ("Do you remember who I am?", "Anna")),
    ),
}


#: People who talk with one agent: what each tells, and asks later, with a word that the answer must hold.
PEOPLE = {
    "zoe": (("My name is Zoe.", "I live in Oslo.", "I am allergic to penicillin."), ("Where do I live?", "Oslo")),
    "小林": (("我叫小林。", "我住在杭州。", "我对花生过敏。"), ("我住在哪里？", "杭州")),
}


@dataclass(frozen=True)
class Shown:
    """What the model would have got for a question of the last session."""

    question: str
    prompt: str
    tokens: int
    #: Whether the prompt holds the answer, which only an earlier session told.
    answered: bool
    #: Whether it holds nothing that another person told.
    private: bool = True


def ask_openai(prompt: str, messages: Sequence[Message]) -> str:
    """How a program of your own asks: needs the `openai` package and its key."""
    from openai import OpenAI

    done = OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": prompt}, *messages],  # type: ignore[list-item]
    )
    return done.choices[0].message.content or ""


def play(client: Client, loop: ConversationLoop, scene: Scene) -> list[Shown]:
    """Say it all, days apart, then ask in a new session."""
    begun = datetime.now(UTC) - timedelta(days=10)
    for number, session in enumerate(scene.sessions):
        at = begun + timedelta(days=3 * number)
        messages = [{"role": role, "content": text, "at": at + timedelta(minutes=place)} for place, (role, text) in enumerate(session)]
        session_id = f"session-{number + 1}"
        loop.after_completion(scene.agent_id, messages, session_id)
        loop.flush()
        client.end_session(scene.agent_id, session_id)
    _settle(client, scene.agent_id, scene.questions[-1][0])
    shown = []
    for question, answer in scene.questions:
        prompt = loop.before_completion(scene.agent_id, SYSTEM, question, session_id="session-3")
        shown.append(Shown(question, prompt, estimate_tokens(prompt), answer in prompt))
    return shown


def play_people(client: Client, loop: ConversationLoop, agent_id: str = "host") -> list[Shown]:
    """Two people tell one agent the same kinds of things, each in a session that they call by the same name; then both ask."""
    for user_id, (told, _) in PEOPLE.items():
        messages = [{"role": role, "content": text} for line in told for role, text in (("user", line), ("assistant", "…"))]
        loop.after_completion(agent_id, messages, "first", user_id=user_id)
        loop.flush()
        client.end_session(agent_id, "first", user_id=user_id)
    shown = []
    for user_id, (_, (question, answer)) in PEOPLE.items():
        _settle(client, agent_id, question, user_id)
        prompt = loop.before_completion(agent_id, SYSTEM, question, session_id="second", user_id=user_id)
        others = [other for somebody, (_, (_, other)) in PEOPLE.items() if somebody != user_id]
        private = not any(other in prompt for other in others)
        shown.append(Shown(question, prompt, estimate_tokens(prompt), answer in prompt, private))
    return shown


def _settle(client: Client, agent_id: str, question: str, user_id: str | None = None) -> None:
    """Days pass; here it is until the turns can be found and what they tell was extracted."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        found = client.conversations.context(agent_id, question, user_id=user_id).memories
        if any(memory.kind != "session" for memory in found):
            return
        time.sleep(PAUSE)


def run(client: Client) -> dict[str, list[Shown]]:
    """Both scenes, and two people with one agent."""
    with ConversationLoop(client) as loop:
        return {**{language: play(client, loop, scene) for language, scene in SCENES.items()}, "people": play_people(client, loop)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with service(), Client(f"companion-{uuid4().hex[:8]}") as client:
        found = run(client)
    if arguments.json:
        print(json.dumps({name: [asdict(one) for one in shown] for name, shown in found.items()}, ensure_ascii=False))  # noqa: T201
        return
    for shown in found.values():
        for one in shown:
            print(f"\n> {one.question}  ({one.tokens} tokens, {'answered' if one.answered else 'not answered'})\n{one.prompt}")  # noqa: T201


if __name__ == "__main__":
    main()
