"""Registry of API operations: each action is declared once, as ``subject.verb``.

``models`` and ``tasks`` attach functions to rows; the broker's calls, REST, the command line and the client
follow. Names by which other programs know actions (``memory_store``, ``viking_ls`` …) are in
``aliases.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib.resources import files
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import from_json

from jiyi.protocol import (
    accounts,
    appointments,
    artifacts,
    conversations,
    experiences,
    growth,
    identity,
    knowledge,
    memory,
    operations,
    proposals,
    providers,
    recall,
    stores,
)
from jiyi.protocol import conversation_commands as commands
from jiyi.protocol import tier_questions as tiers
from jiyi.protocol.base import (
    CHANGES,
    QUEUE,
    AgentForUser,
    ById,
    ByIdForUser,
    ByIds,
    Count,
    JsonObject,
    Made,
    OfAgent,
    OfAgents,
    Paged,
    Request,
    Rows,
)
from jiyi.protocol.erasure import Erasure, ErasurePreview, ErasureState
from jiyi.protocol.event_requests import EventState, EventStatesQuery
from jiyi.protocol.items import GetItems, Item, ItemsWritten, ListNamespaces, PutItems, SearchItems
from jiyi.protocol.reflection import Reasons, ReflectionsQuery, ReflectionState, WhyQuery
from jiyi.protocol.retrieval import ScoredMemory
from jiyi.protocol.wire.signatures import KeyScope


@dataclass(frozen=True, slots=True)
class Declaration:
    """A row of the table."""

    #: ``subject.verb``; also the name in the audit log.
    name: str
    request: type[BaseModel]
    #: A model, or any type that becomes JSON.
    result: Any
    _: KW_ONLY
    #: The scope that the caller must have.
    scope: KeyScope
    #: False: it only reads, and leaves no audit row.
    mutates: bool
    #: The Celery queue of workers that answer it.
    queue: str
    #: Its transaction may see all groups' rows; its statements say which they mean.
    whole_service: bool = False
    #: The same for operators; anybody else's transaction sees the rows of the actor's group only.
    across_groups: bool = False
    #: Whether its request may be as long as an event: imports and texts.
    large: bool = False
    #: How long a client waits for it by default; None: the deployment's request time-out.
    seconds: float | None = None
    #: Whether its deletions cannot be undone: the command line asks first.
    erases: bool = False
    #: Summary and description of what only workers can do; of others, their functions have it.
    doc: str = ""


#: An action that changes nothing; and one that changes something, and leaves a row in the audit log.
read = partial(Declaration, scope="read", mutates=False, queue=QUEUE)
change = partial(Declaration, mutates=True, queue=CHANGES)

_ROWS = (
    # Agents and their memory.
    read("agents.get", AgentForUser, memory.AgentState),
    change("agents.configure", memory.ConfigureAgent, memory.AgentState, scope="publish"),
    read("agents.list", Paged, Rows[memory.AgentState]),
    change("memory.add", recall.AddMemory, Made, scope="publish"),
    change("memory.update", recall.UpdateMemory, recall.Updated, scope="publish"),
    read(
        "memory.context",
        recall.RecallRequest,
        recall.RecalledContext,
        doc="""Recall what belongs into a prompt, as text.

    The agent's memories that matter most for what the prompt is about, a dated line each, within a budget
    of tokens: what was observed, and what was taken from conversations. Empty if nothing was found. Needs
    a worker that answers.""",
    ),
    read("memory.get", ByIdForUser, memory.Memory),
    read("memory.list", recall.ListMemories, Rows[memory.Memory]),
    read("memory.keywords", memory.KeywordsQuery, Rows[memory.KeywordStrength]),
    read("memory.related", memory.RelatedQuery, memory.Related),
    read("memory.export", memory.ExportQuery, Rows[JsonObject]),
    read("memory.why", WhyQuery, Reasons),
    change(
        "memory.forget",
        recall.ForgetWhatWasSaid,
        recall.Forgotten,
        scope="admin",
        erases=True,
        queue=QUEUE,
        doc="""Forget what a user said, named in words.

    The sentences that it fits, and what was taken from them, are erased for good, with a report; what
    else those messages said stays. Where several things fit nothing is erased, and they are named. Needs
    a worker that answers.""",
    ),
    change("memory.reinstate", recall.ReinstateMemory, recall.Updated, scope="publish"),
    read("memory.mistakes", OfAgents, Rows[recall.Mistake]),
    change("memory.rate", memory.RateMemories, Count, scope="publish"),
    change("archive.archive", ByIds, Count, scope="admin"),
    change("archive.restore", memory.RestoreRequest, Count, scope="admin"),
    read("events.states", EventStatesQuery, Rows[EventState], across_groups=True),
    read("retrieval.list", OfAgents, Rows[recall.RetrievalRecord]),
    read(
        "retrieval.again",
        ById,
        recall.AskedAgain,
        doc="""Ask a past retrieval again.

    Once of what was known when it was asked, and once of what is known now. Needs a worker that answers.""",
    ),
    change("reflection.request", OfAgent, Made, scope="publish"),
    read("reflection.get", ById, ReflectionState),
    # Conversations.
    read(
        "conversations.search",
        commands.SearchOptions,
        Rows[ScoredMemory],
        doc="""Search an agent's memories of conversations.

    By meaning and by words, the best first; of one type, or of a least importance, if asked. Needs a
    worker that answers.""",
    ),
    change("conversations.store", commands.MemoryEntryInput, Made, scope="publish"),
    read("conversations.get", ByIdForUser, memory.Memory | None),
    change("conversations.judge", commands.JudgeTurn, Count, scope="publish"),
    read("conversations.judged", OfAgents, Rows[commands.LabelledTurn]),
    change("conversations.delete", ByIdForUser, Count, scope="admin", erases=True),
    change("conversations.delete_all", OfAgent, Count, scope="admin", erases=True),
    read("conversations.stats", Request, commands.MemoryStats),
    read("conversations.export", OfAgents, Rows[memory.Memory]),
    change("conversations.import", commands.ImportMemories, Count, scope="publish", large=True),
    read(
        "conversations.context",
        conversations.ContextRequest,
        recall.InjectedContext,
        large=True,
        doc="""Build what belongs before an answer.

    The agent's preferences, knowledge, experiences and turns of earlier conversations that matter for the
    query, within a budget of tokens; with `base_prompt` also that prompt with them. Empty if nothing was
    found. Needs a worker that answers.""",
    ),
    read(
        "conversations.extract",
        commands.ExtractMessages,
        commands.SessionMemories,
        large=True,
        doc="""Extract what a conversation contains.

    Memories, experiences and signals for the profile, without storing anything. Needs a worker that
    answers.""",
    ),
    read(
        "prompts.show",
        commands.ShowPrompts,
        Rows[commands.ShownPrompt],
        doc="""Show what an LLM would be asked.

    The prompts for a session as they would be sent to the LLM in use, in pieces that fit it. Request is
    asked. Needs a worker that answers.""",
    ),
    read(
        "conversations.compact",
        conversations.CompactMessages,
        conversations.Compacted,
        large=True,
        doc="""Compact a conversation.

    Older messages become a summary, the latest stay; a tool's call and its result are never parted.
    Stores nothing.""",
    ),
    change(
        "conversations.record", commands.ExtractMessages, commands.StoredSession, scope="publish", large=True
    ),
    read("conversations.check_length", conversations.CheckThreshold, conversations.Threshold, large=True),
    read(
        "resources.find",
        commands.FindOptions,
        Rows[ScoredMemory],
        doc="""Find memories below an address.

    By meaning and by words, among those of the address's agent only. Needs a worker that answers.""",
    ),
    read("experiences.list", experiences.ListExperiences, Rows[experiences.Experience]),
    read("experiences.get", ByIdForUser, experiences.Experience),
    read(
        "experiences.find",
        commands.SearchOptions,
        Rows[experiences.Experience],
        doc="""Find experiences of problems like one.

    By meaning and by words, the best first, with what was done, how it ended and how often it was used.
    Needs a worker that answers.""",
    ),
    change("experiences.store", experiences.TellExperience, experiences.Experience, scope="publish"),
    change("experiences.update", experiences.UpdateExperience, experiences.Experience, scope="publish"),
    change("experiences.delete", ById, Count, scope="admin", erases=True),
    change("resources.add", commands.MemoryEntryInput, Made, scope="publish", large=True),
    read("resources.grep", commands.GrepOptions, Rows[memory.Memory]),
    read("resources.list", commands.ListResources, Rows[commands.Resource]),
    read("resources.read", commands.ReadOptions, Rows[commands.ResourceText]),
    change("resources.remove", commands.ResourceUri, Count, scope="admin", erases=True),
    read("resources.status", Request, commands.StorageStatus),
    change("industry_words.set", commands.IndustryWords, Count, scope="admin", large=True),
    read("tokens.estimate", conversations.EstimateTokens, Count, large=True),
    # Tiers.
    change("quarantine.delete", knowledge.DeleteEntries, Rows[UUID], scope="admin"),
    change("quarantine.check", knowledge.CheckBody, Rows[UUID], scope="admin"),
    read("quarantine.outcome", ById, knowledge.IngestState | None),
    read("working_memory.show", Request, knowledge.WorkingMemory),
    change("knowledge.promote", knowledge.PromoteBody, knowledge.Promoted, scope="admin"),
    change("knowledge.demote", knowledge.DemoteBody, Rows[UUID], scope="admin"),
    change("knowledge.edit", knowledge.EditKnowledge, knowledge.KnowledgeDetail, scope="admin"),
    read("knowledge.list", knowledge.ListKnowledge, knowledge.KnowledgePage),
    read("knowledge.history", ById, Rows[knowledge.Change]),
    change(
        "digests.make",
        knowledge.DigestBody,
        knowledge.DigestState,
        scope="admin",
        queue="reflection",
        seconds=120,  # twenty questions to an LLM
        doc="""Digest quarantine now.

    Groups what agents said, and nobody has promoted, by what it is about, and sums each up, so that
    somebody can choose what to promote. The same is done every week. Needs a worker that answers.""",
    ),
    read("digests.list", knowledge.DigestsQuery, Rows[knowledge.DigestState], scope="admin"),
    read(
        "knowledge.context",
        tiers.ContextBody,
        tiers.ContextAnswer,
        doc="""Put a prompt together with what the group knows.

    The group's words, who the agent is, the five memories that matter most, and what is to be decided, in
    at most so many tokens: the memories give way first, and parts says what was cut, and why. What is in
    quarantine is never among it. Needs a worker that answers.""",
    ),
    # Growth.
    read("proposals.list", proposals.ListProposals, Rows[proposals.Proposal]),
    read("proposals.get", ById, proposals.Proposal),
    change("proposals.decide", proposals.Deciding, proposals.Proposal, scope="admin"),
    change("feedback.give", artifacts.GiveFeedback, artifacts.GivenFeedback, scope="publish"),
    read("patterns.list", OfAgent, Rows[artifacts.PatternState]),
    read("evolution.hint", AgentForUser, artifacts.Hint),
    read("pains.list", growth.ListPains, Rows[growth.PainPoint]),
    read("pains.get", ById, growth.PainPoint),
    change("pains.report", growth.ReportPain, growth.PainChanged, scope="publish"),
    change("pains.resolve", growth.ResolvePain, growth.PainChanged, scope="publish"),
    change("pains.propose", growth.ProposeSolution, growth.PainChanged, scope="publish"),
    change("identity.propose", identity.ProposeChange, proposals.FileProposal, scope="publish"),
    change("identity.update_user", identity.UpdateUser, identity.IdentityFile, scope="publish"),
    change("identity.snapshot", identity.TakeSnapshot, identity.SnapshotState, scope="publish"),
    change("identity.rollback", identity.Rollback, Rows[identity.IdentityFile], scope="admin"),
    read("identity.get", identity.GetFile, identity.IdentityFile),
    read("identity.prompt", identity.ComposePrompt, identity.ComposedPrompt),
    read("identity.history", identity.FileHistory, Rows[identity.IdentityFile]),
    read("identity.versions", identity.ListSnapshots, Rows[identity.SnapshotState]),
    read("self_review.get", OfAgent, growth.SelfState),
    change("self_review.configure", growth.ConfigureSelf, growth.SelfState, scope="admin"),
    change("self_review.run", OfAgent, Made, scope="publish"),
    read("self_review.list", ReflectionsQuery, Rows[ReflectionState]),
    read("self_review.show", ById, ReflectionState),
    read("tallies.list", identity.TallyQuery, Rows[identity.Tally]),
    # Appointments and heartbeats.
    read("appointments.parse", appointments.ParseSchedule, appointments.ScheduleParse),
    change("appointments.create", appointments.CreateSchedule, appointments.AskedSchedules, scope="publish"),
    read("appointments.list", appointments.ListSchedules, Rows[appointments.ScheduleState]),
    read("appointments.get", ById, appointments.ScheduleState),
    change("appointments.update", appointments.UpdateSchedule, appointments.ScheduleState, scope="publish"),
    change("appointments.delete", ById, Count, scope="publish", erases=True),
    change(
        "appointments.ask",
        appointments.AskSchedules,
        appointments.AskedSchedules,
        scope="publish",
        doc="""Do what a message asks of the agent's appointments.

    Create a new one, cancel or move the one that is meant, list what is planned; in Chinese and in
    English. If several fit, or none, nothing is changed and the answer asks back. A message that asks for
    nothing changes nothing. Needs a worker that answers.""",
    ),
    change(
        "heartbeats.configure", appointments.ConfigureHeartbeat, appointments.HeartbeatState, scope="publish"
    ),
    change("heartbeats.tick", OfAgent, appointments.TickState, scope="publish"),
    read("heartbeats.status", OfAgent, appointments.HeartbeatState),
    read("heartbeats.alerts", appointments.ListAlerts, Rows[appointments.AlertState]),
    change("heartbeats.acknowledge", ByIds, Count, scope="publish"),
    read("health.snapshot", appointments.HealthRequest, appointments.Health),
    # Stores and items.
    change("stores.apply", stores.ApplyGraph, stores.AppliedGraph, scope="admin"),
    read("stores.schema", Request, JsonObject),
    read("stores.list", stores.StoresQuery, Rows[stores.StoreState]),
    read("stores.show", stores.StoreName, stores.StoreState),
    read("stores.items", stores.ItemsQuery, Rows[stores.ListedItem]),
    read("stores.files", stores.FilesQuery, Rows[stores.ListedFile]),
    read("stores.attachment", stores.AttachmentQuery, stores.Attachment),
    change("stores.load", stores.StoreName, stores.StoreState, scope="publish"),
    read(
        "stores.retrieve",
        stores.RetrieveItems,
        stores.FoundStoreItems,
        large=True,
        doc="""Search a store.

    Its items that fit the question best, with the parts of their scores; a blackboard's latest, oldest
    first. What has no vector yet is found by its words. Needs a worker that answers.""",
    ),
    change("stores.update", stores.UpdateStore, stores.WrittenItem, scope="publish", large=True),
    change("stores.save", stores.StoreName, stores.SavedStore, scope="publish", large=True),
    change("stores.reindex", stores.StoreName, Count, scope="admin"),
    change("stores.delete", stores.StoreName, Count, scope="admin", erases=True),
    change("stores.log", stores.LogOperation, Made, scope="publish"),
    read(
        "items.search",
        SearchItems,
        Rows[Item],
        doc="""Search items.

    Below a namespace, with fields that fulfil a filter; the most similar to a query first, or those
    updated last. What was stored before is found. Needs a worker that answers.""",
    ),
    change("items.put", PutItems, ItemsWritten, scope="publish", large=True),
    read("items.get", GetItems, Rows[Item | None]),
    read("items.namespaces", ListNamespaces, Rows[list[str]]),
    # The service.
    read("keys.list", accounts.ListKeys, list[accounts.Key], scope="admin", across_groups=True),
    change("keys.create", accounts.CreateKey, accounts.Key, scope="admin", across_groups=True),
    change("keys.rotate", accounts.RotateKey, accounts.Key, scope="admin", across_groups=True),
    change("keys.revoke", accounts.RevokeKey, accounts.Key, scope="admin", across_groups=True),
    read("people.list", Request, list[accounts.Person], scope="operator", whole_service=True),
    change("people.add", accounts.AddPerson, accounts.Person, scope="operator", whole_service=True),
    change("people.set_password", accounts.SetPassword, accounts.Person, scope="read", whole_service=True),
    change("people.update", accounts.UpdatePerson, accounts.Person, scope="operator", whole_service=True),
    read(
        "erasure.preview",
        Erasure,
        ErasurePreview,
        scope="admin",
        seconds=60,  # it looks through everything
        doc="""Show what an erasure would delete.

    How much by kind, whole agents by name, and some of the memories. Changes nothing.""",
    ),
    change("erasure.request", Erasure, ErasureState, scope="admin", erases=True),
    read("erasure.get", ById, ErasureState, scope="admin"),
    read("erasure.list", Paged, Rows[ErasureState], scope="admin"),
    read("dead_letters.list", operations.LettersRequest, Rows[operations.DeadLetter], across_groups=True),
    read("dead_letters.get", ById, operations.DeadLetter, across_groups=True),
    change(
        "dead_letters.resolve", operations.ResolveBody, operations.Resolved, scope="admin", across_groups=True
    ),
    change("pending_work.retry", operations.RetryWork, Count, scope="admin", across_groups=True),
    read("jobs.list", Request, Rows[operations.JobState], scope="operator"),
    change("jobs.run", operations.RunJob, operations.Tick, scope="operator", whole_service=True),
    read("jobs.tick", operations.TickRequest, operations.Tick | None, scope="operator"),
    read("workers.list", Request, operations.WorkersReport, scope="operator", whole_service=True),
    change("workers.set_mode", operations.SetWorkerMode, Count, scope="operator", whole_service=True),
    read("stats.show", Request, operations.ServiceStats, across_groups=True),
    read(
        "embedders.embed",
        commands.EmbedText,
        commands.EmbeddedText,
        doc="""Make the vector of a text.

    By the deployment's embedder, or by the one named; with the pieces that the text would be stored in
    and their keywords.""",
    ),
    read(
        "embedders.show",
        Request,
        providers.EmbedderReport,
        scope="operator",
        doc="""List the embedders.

    Those there are with their models and sizes, the one in use, and how many memories each has embedded.""",
    ),
    change(
        "reembedding.step",
        providers.ReembeddingStep,
        providers.MoveState,
        scope="operator",
        queue="embedding",
        seconds=providers.STEP_SECONDS,
        doc="""Do the next step of moving the deployment to another embedding model.

    Repeat it until its phase is done.""",
    ),
    read(
        "llms.check",
        commands.ConfigureSummaries,
        commands.DriverState,
        scope="operator",
        doc="""Check which LLM summaries are made by.

    Whether it is the one named, and what has to be set in the environment if not: endpoints and keys are
    not kept in the database.""",
    ),
    read(
        "llms.show",
        operations.LLMsRequest,
        providers.LLMReport,
        scope="operator",
        doc="Show the LLM in use with the state of its breaker, the vendors, and what the group has used.",
    ),
    change("llms.forget", Request, Count, scope="operator"),
)
#: Name → what is declared of it.
TABLE: Mapping[str, Declaration] = {row.name: row for row in _ROWS}
#: Another program's name → name. ``POST /conversations/<alias>`` is the action.
ALIASES: Mapping[str, str] = from_json(files(__package__).joinpath("aliases.json").read_bytes())
#: Name → aliases.
ALIASES_OF: Mapping[str, tuple[str, ...]] = {
    name: tuple(alias for alias in ALIASES if ALIASES[alias] == name) for name in TABLE
}


def name_of(name: str) -> str:
    """The name of the action with this name or alias; anything else is returned unchanged."""
    return ALIASES.get(name, name)
