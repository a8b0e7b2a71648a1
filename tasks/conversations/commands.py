"""Commands on conversations that need what only workers have: the agents' indexes, an embedder, an LLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from engine.conversations.attributes import subject_words
from engine.conversations.forgetting import Order, to_forget
from engine.conversations.notes import Experiences, Notes
from engine.conversations.pieces import RunPatience, in_chunks, in_pieces
from engine.conversations.standing import TurnPart
from engine.conversations.trials import Careful
from engine.providers import llms
from engine.providers.embedder_specs import complete
from engine.providers.embedders import embedder, embedder_of
from engine.providers.llm_prompts import count, data_tokens, messages, signature
from engine.providers.questions import (
    Compaction,
    Extraction,
    Keywords,
    KnownFact,
    Memo,
    Planning,
    Poignancy,
    Question,
    Summary,
    Triple,
)
from engine.text.keywords import keywords_ranked
from jiyi.chat import compaction
from jiyi.chat.secrets import masked
from jiyi.errors import BadReply, InvalidRequest, JiyiError, NotFound, ProviderUnavailable, SettingsError
from jiyi.protocol.base import Rows
from jiyi.protocol.conversation_commands import (
    ConfigureSummaries,
    DriverState,
    EmbeddedText,
    EmbedText,
    ExtractMessages,
    Fact,
    FindOptions,
    PromptName,
    SearchOptions,
    SessionMemories,
    ShownPrompt,
    ShowPrompts,
)
from jiyi.protocol.conversations import (
    KINDS,
    ChatMessage,
    CombinedExtraction,
    Compacted,
    CompactMessages,
    ExtractedMemory,
    Kind,
    Message,
    parse_uri,
    uri_of,
)
from jiyi.protocol.experiences import Experience
from jiyi.protocol.memory import MemoryBrief
from jiyi.protocol.recall import ForgetWhatWasSaid, Forgotten
from jiyi.protocol.retrieval import Filters, RetrievalRequest, ScoredMemory
from jiyi.settings import get_settings
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.splitting import split
from jiyi.text.words import language_of
from models.conversations import actions, experiences, extractions, standing
from models.conversations.experiences import find_experiences
from models.conversations.extraction_schedule import EXTRACT_MAX_MESSAGES
from models.conversations.extractions import HANDED_OVER, StoredTurn
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.agents import agent_row, lock_agents, no_agent
from tasks.conversations.asking import combine_parts, extract_parts, learned
from tasks.framework.rpc import implements
from tasks.memory import note_accesses
from tasks.retrieval.retrieve import retrieve

#: So many times as many memories are looked at when too few of those match.
POOL_FACTOR = 10
PIECE_KEYWORDS = 5


@implements(actions.search)
def search(actor: Actor, request: SearchOptions) -> Rows[ScoredMemory]:
    """Safe to repeat because accesses only move forward."""
    return Rows(rows=_important(actor, request, KINDS))


@implements(actions.find)
def find(actor: Actor, request: FindOptions) -> Rows[ScoredMemory]:
    """Safe to repeat because accesses only move forward."""
    place = parse_uri(request.scope)
    kinds: Sequence[Kind] = KINDS if place.kind is None else [place.kind]

    def below(memory: ScoredMemory) -> bool:
        return memory.uri is not None and parse_uri(memory.uri).path[: len(place.path)] == place.path

    return Rows(rows=_matches(actor, place.agent_id, request, kinds, below))


@implements(find_experiences)
def find_experiences_like(actor: Actor, request: SearchOptions) -> Rows[Experience]:
    """Safe to repeat because accesses only move forward."""
    ids = [memory.node_id for memory in _important(actor, request, ["experience"])]
    with unit_of_work() as connection:
        return Rows(rows=experiences.shown(connection, actor.group_id, ids))


def _important(actor: Actor, request: SearchOptions, kinds: Sequence[Kind]) -> list[ScoredMemory]:
    least = request.min_importance or 0
    kinds = [kind for kind in kinds if request.memory_type in (None, kind)]

    def important(memory: ScoredMemory) -> bool:
        return (memory.poignancy or 0) >= least

    return _matches(actor, request.agent_id, request, kinds, important) if kinds else []


def _matches(
    actor: Actor,
    agent_id: str,
    request: SearchOptions | FindOptions,
    kinds: Sequence[Kind],
    is_match: Callable[[ScoredMemory], bool],
) -> list[ScoredMemory]:
    """The best of an agent's current memories that match, up to the limit; they count as accessed."""
    top_k = request.limit
    while True:
        question = RetrievalRequest.model_construct(  # unchecked: the limits are those of clients
            group_id=actor.group_id,
            agent_id=agent_id,
            user_id=request.user_id,
            queries=[request.query],
            top_k=top_k,
            touch=False,
            filters=Filters(kinds=list(kinds)),
        )
        answer = retrieve(question)
        matches = [memory for memory in answer.retrieved_nodes if is_match(memory)][: request.limit]
        if len(matches) == request.limit or len(answer.retrieved_nodes) < top_k:
            break
        top_k *= POOL_FACTOR
    ids, now = [memory.node_id for memory in matches], datetime.now(UTC).timestamp()
    note_accesses(actor.group_id, agent_id, ids, now)
    return matches


@implements(actions.forget)
def forget(actor: Actor, request: ForgetWhatWasSaid) -> Forgotten:
    """Safe to repeat because what is erased is not found again."""
    name = (actor.group_id, request.agent_id)
    with unit_of_work() as connection:
        if agent_row(connection, *name) is None:
            raise no_agent(*name)
        lock_agents(connection, [name])
        turns = extractions.said_by(connection, name, request.user_id)
        user_turns = [turn for turn in turns if turn.message.role == "user"]
        order = Order(0, len(request.text), request.text)
        things = to_forget("", order, [turn.message.text for turn in user_turns])
        spans = list(dict.fromkeys(fit for fits in things for fit in fits))
        parts = [TurnPart(user_turns[number].node_id, start, end) for number, start, end in spans]
        fitting = [_fitting(user_turns[number], start, end) for number, start, end in spans]
        if len({subject_words(part.description) for part in fitting}) > 1 and not request.every:
            return Forgotten(answer=_answer(request, "asks", len(fitting)), asks=fitting)
        erasure_id = standing.forget(connection, name, parts, actor.name)
    if erasure_id is None:
        return Forgotten(answer=_answer(request, "nothing", 0))
    answer = _answer(request, "erased", len(fitting))
    return Forgotten(answer=answer, erasure_id=erasure_id, forgotten=fitting)


def _fitting(turn: StoredTurn, start: int, end: int) -> MemoryBrief:
    part = {"created_at": turn.message.at, "description": turn.message.text[start:end]}
    return MemoryBrief.model_validate({"node_id": turn.node_id, "type": "event", "kind": "session", **part})


#: What is said of an order to forget.
_ANSWERS = {
    "en": {
        "asks": "Nothing is erased yet: {count} things fit. Which one is meant, or all of them?",
        "erased": "Done: what fits is being erased for good, with what was taken from it ({count}).",
        "nothing": "Nothing that was said fits: nothing is erased.",
    },
    "zh": {
        "asks": "还没有删除：有 {count} 处符合。是指哪一处，还是全部？",
        "erased": "好的：符合的内容（{count} 处）连同由此记下的都在彻底删除。",
        "nothing": "说过的话里没有符合的：什么都没有删除。",
    },
}


def _answer(request: ForgetWhatWasSaid, which: Literal["asks", "erased", "nothing"], count: int) -> str:
    return _ANSWERS[language_of(request.text)][which].format(count=count)


@implements(actions.extract_session_memories)
def extract_session_memories(actor: Actor, request: ExtractMessages) -> SessionMemories:
    """Safe to repeat because it stores nothing."""
    conversation = (message for message in request.messages if message.role != HANDED_OVER)
    new = [message.model_copy(update={"text": masked(message.text)}) for message in conversation]
    llm, extraction, answered = llms.llm(), CombinedExtraction(), llms.llm().model
    if new:
        about: dict[str, Any] = {"agent_id": request.agent_id, "group_id": actor.group_id}
        language = language_of("\n".join(message.text for message in new))
        question = Extraction(**about, language=language, messages=new)
        parts = extract_parts(Careful(llm), question, RunPatience())
        extraction = combine_parts(parts)
        answered = ", ".join(dict.fromkeys(part.llm for part in parts)) or answered
    return SessionMemories(
        items=[_fact(request.agent_id, memory) for memory in extraction.memories],
        extraction=extraction,
        llm=answered,
    )


def _fact(agent_id: str, memory: ExtractedMemory) -> Fact:
    behavior = memory.category in ("agent_lesson", "agent_pattern")
    return Fact(
        category=memory.category,
        content=memory.content,
        tags=memory.keywords,
        importance=memory.importance,
        suggested_uri=uri_of(agent_id, memory.type, (memory.attribute or memory.category).partition(":")[0]),
        fact="behavior" if behavior else memory.type,
    )


@implements(actions.create_embedding)
def create_embedding(_actor: Actor, request: EmbedText) -> EmbeddedText:
    """Safe to repeat because it stores nothing."""
    if request.provider is not None:
        try:
            complete(request.provider, get_settings())
        except SettingsError as error:
            raise InvalidRequest([f"provider: {str(error).removeprefix('JIYI_EMBEDDER: ')}"]) from None
    engine = embedder() if request.provider is None else embedder_of(request.provider)
    vector = engine.passages([request.text])[0]
    pieces = [
        {"text": piece.text, "keywords": keywords_ranked(piece.text)[:PIECE_KEYWORDS]}
        for piece in split(request.text)
    ]
    return EmbeddedText(model=engine.model, vector=[float(value) for value in vector], pieces=pieces)


@implements(actions.configure_summaries)
def configure_summaries(_actor: Actor, request: ConfigureSummaries) -> DriverState:
    """Safe to repeat because it changes nothing."""
    requested = request.provider if request.model is None else f"{request.provider}:{request.model}"
    used = get_settings().llm
    if requested == used:
        return DriverState(active=True, in_use=used)
    how = f"set JIYI_LLM={requested}, and the vendor's key, in the environment of the workers"
    return DriverState(active=False, in_use=used, how=how)


def _summarised(
    turns: Sequence[ChatMessage], previous: str, most: int, *, llm: llms.LLM, group_id: str
) -> str:
    """A summary of a conversation by an LLM, that of the part ``previous`` to it included."""
    utterances = [(message.role, message.content) for message in turns if message.content]
    if not utterances:
        return previous
    language = language_of("\n".join(text for _, text in utterances))
    room = data_tokens()
    most = min(most, room // 2)
    about: dict[str, Any] = {"agent_id": "", "group_id": group_id, "language": language}
    for chunk in in_chunks(utterances, room - most):
        question = Compaction(**about, text=previous, utterances=chunk)
        try:
            previous = cut_to_tokens(llm.ask(question).summary, most)
        except (ProviderUnavailable, BadReply):
            count(llm.model, question, by_rules=1)
            raise
    return previous


@implements(actions.compact)
def compact(actor: Actor, request: CompactMessages) -> Compacted:
    """Safe to repeat because it stores nothing. An LLM that is away, or leaves out too much, is replaced by
    the rules.
    """
    compacted = partial(
        compaction.compact, request.messages, request.limits, request.previous_summary, force=request.force
    )
    if get_settings().llm == llms.RULES:
        return compacted()
    try:
        return compacted(summarise=partial(_summarised, llm=Careful(llms.llm()), group_id=actor.group_id))
    except JiyiError:
        return compacted()


#: Number of a turn that is later than any.
LAST = 2**31 - 1

_Build = Callable[[Sequence[Message], Sequence[KnownFact], Mapping[str, Any]], list[Question[Any]]]


@implements(actions.show_prompts)
def show_prompts(actor: Actor, request: ShowPrompts) -> Rows[ShownPrompt]:
    """What an LLM would be asked about a session. Safe to repeat because it stores and asks nothing."""
    name, session = (actor.group_id, request.agent_id), (request.session_id, request.user_id)
    with unit_of_work() as connection:
        context = extractions.context_of(connection, name, session, LAST, EXTRACT_MAX_MESSAGES)
        turns = extractions.said(context)
        known_facts = extractions.known_facts(
            connection, name, [turn.node_id for turn in turns], request.user_id
        )
    if not turns:
        why = f"the agent {request.agent_id!r} has no turns of the session {request.session_id!r}"
        raise NotFound(f"session_id: {why}")
    conversation = [turn.message for turn in turns]
    language = language_of("\n".join(one.text for one in conversation))
    about = {"agent_id": request.agent_id, "group_id": actor.group_id, "language": language}
    questions = _QUESTIONS[request.name](conversation, [fact.fact for fact in known_facts], about)
    return Rows(rows=[_shown(question) for question in questions])


def _shown(question: Question[Any]) -> ShownPrompt:
    sent = [ChatMessage(**message) for message in messages(question)]
    tokens = sum(estimate_tokens(message.content or "") for message in sent)
    return ShownPrompt(
        prompt=signature(question, question.language),
        tokens=tokens,
        messages=sent,
        answer=question.answer.model_json_schema(),
    )


def _notes(
    conversation: Sequence[Message], known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    fact_numbers, fact_tokens = learned.choose_facts(known_facts, conversation)
    shown_facts = [known_facts[number] for number in fact_numbers]
    pieces = in_pieces(conversation, 0, learned.room(fact_tokens))
    return [Notes(**about, messages=one.messages, since=one.since, known=shown_facts) for one in pieces]


def _experiences(
    conversation: Sequence[Message], _known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    pieces = in_pieces(conversation, 0, learned.room())
    return [Experiences(**about, messages=one.messages, since=one.since) for one in pieces]


def _compaction(
    conversation: Sequence[Message], _known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    chunks = in_chunks([(message.role, message.text) for message in conversation], data_tokens())
    return [Compaction(**about, utterances=chunk) for chunk in chunks]


def _of_conversation(question: type[Planning | Memo]) -> _Build:
    return lambda conversation, _known_facts, about: [
        question(**about, utterances=[(one.name or one.role, one.text) for one in conversation])
    ]


def _of_last(question: type[Summary | Poignancy | Triple | Keywords]) -> _Build:
    return lambda conversation, _known_facts, about: [question(**about, text=conversation[-1].text)]


_QUESTIONS: dict[PromptName, _Build] = {
    "extraction": _notes,
    "experiences": _experiences,
    "compaction": _compaction,
    "planning": _of_conversation(Planning),
    "memo": _of_conversation(Memo),
    "summary": _of_last(Summary),
    "poignancy": _of_last(Poignancy),
    "triple": _of_last(Triple),
    "keywords": _of_last(Keywords),
}
