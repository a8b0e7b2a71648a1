"""A companion that remembers its people: sessions days apart, in Chinese and in English, with no LLM at all.

    python -m examples.companion [--json]

What the model would get is shown for each question: the prompt, its tokens, and whether it holds what only
the first session told. In a program of your own the model is a line of the `openai` client, as in
``ask_openai`` below.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from examples.service import service
from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.protocol.proposals import SkillProposal
from jiyi.text.budget import estimate_tokens

SYSTEM = "You are a kind companion."
#: Seconds that what was said may take to be extracted, and between two looks.
SETTLE_SECONDS, PAUSE = 60.0, 0.2
#: A prompt may take so long here: what is shown is what is in it, not how fast a busy machine is.
ANSWER_SECONDS = 30.0

Message = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """What was said in sessions days apart, and the questions of the last one with a word that their answers
    must hold.
    """

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
            (
                ("user", "今天天气不错。"),
                ("assistant", "是啊，适合晒坯。"),
                ("user", "先忙去了。"),
                ("assistant", "好的，回头聊。"),
            ),
        ),
        (
            ("帮我推荐一道下酒菜，有什么要避开的吗？我对什么过敏？", "花生"),
            ("我女儿叫什么名字？", "小满"),
            ("你还记得我是谁吗？", "林岚"),
        ),
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
            (
                ("user", "What a rainy day."),
                ("assistant", "Indeed."),
                ("user", "Talk to you later."),
                ("assistant", "See you."),
            ),
        ),
        (
            ("Which medicine must I avoid?", "penicillin"),
            ("Where do I live?", "Porto"),
            ("Do you remember who I am?", "Anna"),
        ),
    ),
}


#: People who talk with one agent: what each tells, and asks later, with a word that the answer must hold.
PEOPLE = {
    "zoe": (
        ("My name is Zoe.", "I live in Oslo.", "I am allergic to penicillin."),
        ("Where do I live?", "Oslo"),
    ),
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
        messages = [
            {"role": role, "content": text, "at": at + timedelta(minutes=place)}
            for place, (role, text) in enumerate(session)
        ]
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
    """Two people tell one agent the same kinds of things, each in a session that they call by the same name;
    then both ask.
    """
    for user_id, (told, _) in PEOPLE.items():
        messages = [
            {"role": role, "content": text}
            for line in told
            for role, text in (("user", line), ("assistant", "…"))
        ]
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
        found = client.conversations.context(agent_id=agent_id, query=question, user_id=user_id).memories
        if any(memory.kind != "session" for memory in found):
            return
        time.sleep(PAUSE)


#: What goes wrong, what helps, and that it did: told often enough it is a skill.
BUILD = (
    ("user", "The nightly build keeps failing on CI."),
    (
        "assistant",
        (
            "Try this:\n1. Clear the cache of the runner.\n2. Pin numpy to the last version that worked.\n3."
            " Start the build again."
        ),
    ),
    ("user", "That fixed it, thanks!"),
)
#: The session after somebody has accepted the skill: what the user says, and what the model answers.
AGAIN = (
    ("The nightly build fails on CI again.", "Clear the cache of the runner first, then pin numpy."),
    ("I cleared it. What was the second step?", "Pin numpy to the last version that worked."),
    ("That fixed it, thanks!", "Glad to hear it."),
)
REMINDERS = (
    "Remind me every day at 9 to water the ferns",
    "Move the ferns to 10 o'clock",
    "Cancel the ferns, please",
)
MENDER, BUDGET = "mender", 1_000


@dataclass(frozen=True)
class Learned:
    """What was learned in two sessions and used in the third, and what its prompts cost."""

    skill: str
    #: Whether a line of the skill's steps was in the prompt of session 3.
    in_prompt: bool
    trust_before: float
    trust_after: float
    #: Share of each prompt's tokens that a provider's cache has from the one before.
    cache_share: float
    #: Most tokens that were put into a prompt, of so many allowed.
    tokens_max: int
    budget: int
    #: What the user was told of a reminder that was made, moved and cancelled, and how many are left.
    reminders: list[str | None]
    reminders_left: int


def learn(client: Client) -> Learned:
    """Two sessions of the same trouble, a skill that somebody accepts, and a third session that uses it."""
    with ConversationLoop(client, max_tokens=BUDGET, seconds=ANSWER_SECONDS) as loop:
        for number in (1, 2):
            for part in (1, 2):
                at = datetime.now(UTC) - timedelta(days=10 - 2 * number - part)
                told = [
                    {"role": role, "content": text, "at": at + timedelta(minutes=place)}
                    for place, (role, text) in enumerate(BUILD)
                ]
                loop.after_completion(MENDER, told, f"session-{number}-{part}")
                loop.flush()
                client.end_session(MENDER, f"session-{number}-{part}")
        skill = _poll(lambda: client.proposals.list(kind="skill", agent_id=MENDER, status="pending").rows)[0]
        client.proposals.decide(id=skill.id, decision="approve", reason="it helped")
        client.proposals.decide(id=skill.id, decision="enable")
        chat: list[Message] = []
        tokens, shown = [], False
        for said, answer in AGAIN:
            chat.append({"role": "user", "content": said})
            ready = loop.before(MENDER, SYSTEM, said, session_id="session-3", messages=chat, split=True)
            tokens.append(0 if loop.injected is None else loop.injected.tokens)
            shown = shown or "Clear the cache of the runner." in str(ready.recalled)
            chat.append({"role": "assistant", "content": answer})
            loop.after_completion(MENDER, chat, "session-3")
        share = loop.cache_share(MENDER, "session-3")
        loop.flush()
        client.end_session(MENDER, "session-3")
        trusted = _poll(
            lambda: [
                row
                for row in [client.proposals.get(id=skill.id)]
                if isinstance(row, SkillProposal) and row.votes
            ]
        )[0]
        replies = [loop.before(MENDER, SYSTEM, said, session_id="session-4").reply for said in REMINDERS]
    left = client.appointments.list(agent_id=MENDER).rows
    return Learned(
        skill.name,
        shown,
        skill.trust_score or 0.5,
        trusted.trust_score,
        round(share or 0.0, 3),
        max(tokens),
        BUDGET,
        replies,
        sum(schedule.state != "ended" for schedule in left),
    )


def _poll(look: Callable[[], list[Any]]) -> list[Any]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return found


def run(client: Client) -> dict[str, list[Shown]]:
    """Both scenes, and two people with one agent."""
    with ConversationLoop(client, seconds=ANSWER_SECONDS) as loop:
        return {
            **{language: play(client, loop, scene) for language, scene in SCENES.items()},
            "people": play_people(client, loop),
        }


def report(client: Client) -> dict[str, Any]:
    """What ``--json`` prints: of each scene what was shown, and what was learned."""
    scenes = {name: [asdict(one) for one in shown] for name, shown in run(client).items()}
    return {**scenes, "learned": asdict(learn(client))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with service(), Client(f"companion-{uuid4().hex[:8]}") as client:
        told = report(client)
    if arguments.json:
        print(json.dumps(told, ensure_ascii=False))  # noqa: T201
        return
    print(told.pop("learned"))  # noqa: T201
    for one in (one for shown in told.values() for one in shown):
        answered = "answered" if one["answered"] else "not answered"
        print(f"\n> {one['question']}  ({one['tokens']} tokens, {answered})\n{one['prompt']}")  # noqa: T201


if __name__ == "__main__":
    main()
