"""Extraction from a conversation by an LLM, piece by piece, and by the rules where it has no answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.conversations.memories import merge_profile, of_user
from engine.conversations.notes import (
    Experiences,
    LivedThrough,
    Notes,
    accept_answers,
    nearest_facts,
    reports_problem,
)
from engine.conversations.pieces import (
    ConversationPiece,
    RunPatience,
    TokenRoom,
    ask_about,
    in_pieces,
    line_tokens,
)
from engine.heads.local import heads
from engine.providers.llm_prompts import answer_tokens, count, data_tokens, signature
from engine.providers.llms import LLM, RULES, ask_context
from engine.providers.questions import Extraction, KnownFact
from engine.rules.provider import Rules, StandIn
from jiyi.errors import BadReply, LeftToRules
from jiyi.protocol.conversations import (
    CombinedExtraction,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    Profile,
    ProfileSignals,
)
from tasks.framework.work import or_by_rules

log = logging.getLogger(__name__)
Found = TypeVar("Found", ExtractedMemory, ExtractedExperience)
#: Tokens of a piece below which a refusal of its length teaches nothing.
LEAST_LEARNED = 800


@dataclass(frozen=True, slots=True)
class AnsweredPart:
    """The extraction from some of a conversation's messages, with the LLM and the prompt that gave it.

    ``turns``: the messages' numbers in the conversation; ``refusal``: why the LLM had no answer to the new
    one.
    """

    messages: list[Message]
    turns: list[int]
    extraction: CombinedExtraction
    llm: str
    prompt: str
    fallback: bool = False
    refusal: BadReply | None = None


class LearnedRoom:
    """As many tokens of data as the LLM did not refuse as too many, for this process."""

    def __init__(self) -> None:
        self._most: int | None = None

    def room(self, used_tokens: int = 0) -> TokenRoom:
        """What a question has room for beside the tokens that are used already."""
        ask_context()
        most = data_tokens() if self._most is None else min(data_tokens(), self._most)
        return TokenRoom(most - used_tokens, answer_tokens())

    def choose_facts(self, known_facts: Sequence[KnownFact], new: Sequence[Message]) -> tuple[list[int], int]:
        """Numbers of the known facts that the LLM is shown with new messages, and their tokens.

        The first of those that the messages may touch, as many as fit into half of the room.
        """
        remaining = half = self.room().data // 2
        fitting = []
        for number in nearest_facts(known_facts, new, heads()):
            remaining -= line_tokens(known_facts[number].content)
            if remaining < 0:
                break
            fitting.append(number)
        return fitting, half - max(remaining, 0)

    def refused(self, piece: ConversationPiece) -> None:
        """A piece was beyond the model's context."""
        if piece.tokens >= LEAST_LEARNED:
            self._most = min(self.room().data, piece.tokens) // 2


learned = LearnedRoom()


def extract_parts(
    first: LLM, question: Extraction, patience: RunPatience, *, alone: bool = False
) -> list[AnsweredPart]:
    """The extractions from the new messages, in parts; ``first``: the LLM, or the rules.

    Raises ``LLMUnavailable`` where the LLM is away and the rules do not stand in, and ``BadReply`` where a
    message without an answer is no matter for the rules (``alone``).
    """

    def by(llm: LLM) -> list[AnsweredPart]:
        prompt = signature(question, question.language)
        if llm.model.startswith(RULES):
            extraction, turns = llm.ask(question), list(range(len(question.messages)))
            return [AnsweredPart(question.messages, turns, extraction, llm.model, prompt, llm is not first)]
        fact_numbers, fact_tokens = learned.choose_facts(question.known, question.messages[question.since :])
        pieces = in_pieces(
            question.messages, question.since, learned.room(fact_tokens), with_facts=bool(fact_numbers)
        )
        rules = StandIn(llm.model)
        answers = ask_about(
            pieces,
            lambda piece: _noted(llm, question, piece, fact_numbers if piece.with_facts else []),
            lambda piece: _by_rules(rules, question, piece),
            patience,
            alone=alone,
        )
        return [
            AnsweredPart(
                one.piece.messages,
                [line.turn for line in one.piece.lines],
                one.answer,
                Rules.model if one.by_rules else llm.model,
                prompt,
                one.by_rules,
                one.refusal,
            )
            for one in answers
        ]

    return or_by_rules(first, by)[0]


def combine_parts(parts: Sequence[AnsweredPart]) -> CombinedExtraction:
    """The parts of one conversation combined: all about its users, with the numbers of its messages."""
    result, profile = CombinedExtraction(), Profile()
    for part in parts:
        extraction = of_user(part.extraction, part.messages)
        result.memories += [_of_conversation(part, memory) for memory in extraction.memories]
        result.experiences += [_of_conversation(part, experience) for experience in extraction.experiences]
        profile = merge_profile(profile, part.extraction.profile_signals)
    signals = ProfileSignals(**profile.model_dump(include=set(ProfileSignals.model_fields)))
    return result.model_copy(update={"profile_signals": signals})


def _of_conversation(part: AnsweredPart, item: Found) -> Found:
    turns = list(dict.fromkeys(part.turns[turn] for turn in item.turns))
    return item.model_copy(update={"turns": turns})


def _by_rules(rules: Rules, question: Extraction, piece: ConversationPiece) -> CombinedExtraction:
    return rules.ask(question.model_copy(update={"messages": piece.messages, "since": piece.since}))


def _noted(
    llm: LLM, question: Extraction, piece: ConversationPiece, fact_numbers: Sequence[int]
) -> CombinedExtraction:
    """What the LLM notes of a piece, with the facts ``fact_numbers``, as far as its structure is valid."""
    about = {name: getattr(question, name) for name in ("agent_id", "group_id", "language")}
    notes_question = Notes(
        **about,
        messages=piece.messages,
        since=piece.since,
        known=[question.known[number] for number in fact_numbers],
    )
    try:
        notes = llm.ask(notes_question)
    except BadReply as error:
        if error.too_long == "question":
            learned.refused(piece)
        raise
    lived, also = LivedThrough(), list[ExtractedExperience]()
    if reports_problem(notes_question.messages, notes_question.since):
        problems = Experiences(**about, messages=piece.messages, since=piece.since)
        try:
            lived = llm.ask(problems)
        except LeftToRules:
            also = _by_rules(Rules(), question, piece).experiences
            count(llm.model, problems, by_rules=1)
        except BadReply as error:
            log.warning("no experience was extracted from the conversation: %s", error)
    whole = notes_question.model_copy(update={"known": question.known})
    extraction, dropped = accept_answers(notes, lived, whole, heads(), fact_numbers)
    if dropped:
        count(llm.model, notes_question, dropped=dropped)
    return extraction.model_copy(update={"experiences": [*extraction.experiences, *also]})
