"""The table of actions: everything that the service does for somebody, each declared once.

An action is ``subject.verb``. Its row says what it is asked with, what it answers, the right it needs, and which workers answer it.
``models`` and ``tasks`` attach functions to rows; the broker's calls, REST, the command line and the HTTP client's calls follow.
Names by which other programs know actions (``memory_store``, ``viking_ls`` …) are aliases, in ``aliases.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from jiyi.protocol.accounts import AddPerson, CreateKey, Key, ListKeys, ListPeople, Person, PersonRequest, RevokeKey, RotateKey, SetPassword
from jiyi.protocol.appointments import (
    AcknowledgeAlerts,
    Acknowledged,
    Alerts,
    AskedSchedules,
    AskSchedules,
    ConfigureHeartbeat,
    CorrectAgent,
    CreatedSchedule,
    CreateSchedule,
    Deleted,
    Health,
    HealthRequest,
    HeartbeatConfig,
    HeartbeatState,
    ListAlerts,
    ListRuns,
    ListSchedules,
    ListTicks,
    ParseSchedule,
    ScheduleDetails,
    ScheduleId,
    ScheduleParse,
    ScheduleRuns,
    Schedules,
    ScheduleState,
    TickResult,
    Ticks,
)
from jiyi.protocol.artifacts import (
    ArtifactId,
    ArtifactRows,
    ArtifactsQuery,
    ArtifactState,
    Deciding,
    EvolutionQuery,
    EvolutionRows,
    GiveFeedback,
    GivenFeedback,
    Hint,
    HintQuery,
    PatternRows,
    PatternsQuery,
    TrustQuery,
    TrustRows,
    VoteRows,
    VotesQuery,
)
from jiyi.protocol.base import CHANGES, QUEUE, Page
from jiyi.protocol.conversation_commands import (
    AddResource,
    AgentId,
    AgentWithProfile,
    ConfigureEmbedding,
    ConfigureSummaries,
    DatabasePath,
    Deletion,
    Done,
    DriverState,
    EmbeddedText,
    EmbedText,
    Entries,
    EstimateTokens,
    ExportMemories,
    ExtractMessages,
    FindOptions,
    FoundMemory,
    GrepOptions,
    Imported,
    ImportMemories,
    IndustryWords,
    MemoryEntryInput,
    MemoryId,
    MemoryStats,
    Nothing,
    ReadOptions,
    Resources,
    ResourceTexts,
    ResourceUri,
    SearchOptions,
    SessionMemories,
    StorageStatus,
    StoredMemory,
    StoredSession,
    Tokens,
    TreeOptions,
)
from jiyi.protocol.conversations import (
    CheckThreshold,
    Compacted,
    CompactMessages,
    ContextRequest,
    CountMessages,
    InjectedContext,
    InjectRequest,
    Threshold,
)
from jiyi.protocol.erasure import Erasure, ErasurePreview, ErasureQuery, ErasureRequested, ErasureRows, ErasuresQuery, ErasureState
from jiyi.protocol.event_requests import EventState, EventStatesQuery
from jiyi.protocol.growth import (
    ConfigureSelf,
    ListLooks,
    ListPains,
    LookDetail,
    LookId,
    LookPage,
    PainChanged,
    PainDetail,
    PainId,
    PainPage,
    ProposalAsked,
    ProposeSolution,
    ReportPain,
    ResolvePain,
    SelfState,
)
from jiyi.protocol.identity import (
    ChangedFiles,
    ComposedPrompt,
    ComposePrompt,
    DecideProposal,
    Difference,
    DiffFiles,
    FileHistory,
    FileStates,
    GetFile,
    IdentityFile,
    IdentityProposal,
    ListProposals,
    ListSnapshots,
    OfAgent,
    ProposalPage,
    ProposeChange,
    Rollback,
    SnapshotPage,
    SnapshotState,
    TakeSnapshot,
    Tallies,
    TallyQuery,
    UpdateUser,
    VersionPage,
)
from jiyi.protocol.items import FoundItems, GetItems, ItemRows, ItemsWritten, ListNamespaces, Namespaces, PutItems, SearchItems
from jiyi.protocol.knowledge import (
    Change,
    CheckBody,
    CheckedEntries,
    CurrentVersion,
    DeletedEntries,
    DeleteEntries,
    DemoteBody,
    Demoted,
    DigestBody,
    DigestPage,
    DigestsQuery,
    DigestState,
    EditKnowledge,
    EntryQuery,
    HistoryQuery,
    IngestState,
    KnowledgeFilter,
    KnowledgePage,
    PromoteBody,
    Promoted,
    WorkingMemoryQuery,
    WorkingState,
)
from jiyi.protocol.memory import (
    AgentsQuery,
    AgentState,
    Archived,
    ArchivedQuery,
    ArchiveRequest,
    ConfigureAgent,
    ExportQuery,
    KeywordsQuery,
    MemoryDetail,
    MemoryRow,
    NodesQuery,
    RelatedQuery,
    Restored,
    RestoreRequest,
)
from jiyi.protocol.operations import (
    DeadLetter,
    DeadLetterPage,
    EmbeddersRequest,
    JobsRequest,
    JobState,
    LetterRequest,
    LettersRequest,
    LLMsRequest,
    ResolveBody,
    Resolved,
    Retried,
    RetryWork,
    RunJob,
    ServiceStats,
    StatsRequest,
    Tick,
    TickRequest,
)
from jiyi.protocol.operations import RecallRequest as CheckRecall
from jiyi.protocol.providers import EmbedderReport, LLMReport, MoveState, RecallReport, ReembeddingStep
from jiyi.protocol.recall import (
    AddedMemory,
    AddMemory,
    ListMemories,
    MemoryRequest,
    MemoryRows,
    RecalledContext,
    RecallRequest,
    RetrievalRecords,
    RetrievalsQuery,
    Updated,
    UpdateMemory,
)
from jiyi.protocol.reflection import Reasons, ReflectionAsked, ReflectionQuery, ReflectionState, ReflectRequest, WhyQuery
from jiyi.protocol.stores import (
    AppliedGraph,
    ApplyGraph,
    AttachmentBytes,
    AttachmentQuery,
    DeletedStore,
    FilePage,
    FilesQuery,
    FoundStoreItems,
    ItemPage,
    ItemsQuery,
    LoggedOperation,
    LogOperation,
    MapQuery,
    OperationPage,
    OperationsQuery,
    ReindexedStore,
    RetrieveItems,
    SavedStore,
    SchemaQuery,
    StoreMap,
    StoreName,
    StorePage,
    StoreSchema,
    StoresQuery,
    StoreState,
    UpdateStore,
    WrittenItem,
)
from jiyi.protocol.tier_questions import ContextAnswer, ContextBody
from jiyi.protocol.trajectories import StepRows, StepsQuery, TrajectoriesQuery, TrajectoryId, TrajectoryRows, TrajectoryState
from jiyi.protocol.wire.signatures import KeyScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A row of the table."""

    #: ``subject.verb``; also the name in the audit log.
    name: str
    request: type[BaseModel]
    #: A model, or any type that becomes JSON.
    result: Any
    #: The right that whoever asks must have.
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
    #: Summary and description of what only workers can do; of others, their functions have it.
    doc: str = ""


def read(name: str, request: type[BaseModel], result: Any, *, scope: KeyScope = "read", queue: str = QUEUE, **options: Any) -> Declaration:
    """An action that changes nothing."""
    return Declaration(name=name, request=request, result=result, scope=scope, mutates=False, queue=queue, **options)


def change(name: str, request: type[BaseModel], result: Any, *, scope: KeyScope, queue: str = CHANGES, **options: Any) -> Declaration:
    """An action that changes something, and leaves a row in the audit log."""
    return Declaration(name=name, request=request, result=result, scope=scope, mutates=True, queue=queue, **options)


_ROWS = (
    # Agents and their memory.
    read("agents.get", AgentId, AgentWithProfile),
    change("agents.configure", ConfigureAgent, AgentState, scope="publish"),
    read("agents.list", AgentsQuery, Page),
    change("memory.add", AddMemory, AddedMemory, scope="publish"),
    change("memory.update", UpdateMemory, Updated, scope="publish"),
    read(
        "memory.context",
        RecallRequest,
        RecalledContext,
        doc="""Recall what belongs into a prompt, as text.

    The agent's memories that matter most for what the prompt is about, a dated line each, within a budget of tokens: what was
    observed, and what was taken from conversations. Empty if nothing was found. Needs a worker that answers.
    """,
    ),
    read("memory.get", MemoryRequest, MemoryDetail),
    read("memory.list", ListMemories, MemoryRows),
    read("memory.nodes", NodesQuery, Page),
    read("memory.keywords", KeywordsQuery, Page),
    read("memory.related", RelatedQuery, dict[str, list[MemoryRow]]),
    read("memory.export", ExportQuery, Page),
    read("memory.why", WhyQuery, Reasons),
    change("archive.archive", ArchiveRequest, Archived, scope="admin"),
    change("archive.restore", RestoreRequest, Restored, scope="admin"),
    read("archive.list", ArchivedQuery, Page),
    read("events.states", EventStatesQuery, list[EventState], across_groups=True),
    read(
        "retrieval.check_recall",
        CheckRecall,
        RecallReport,
        doc="""Compare a large agent's approximate search with an exact one, asking with texts of its own memories.""",
    ),
    read("retrieval.list", RetrievalsQuery, RetrievalRecords),
    change("reflection.request", ReflectRequest, ReflectionAsked, scope="publish"),
    read("reflection.get", ReflectionQuery, ReflectionState),
    # Conversations.
    read(
        "conversations.search",
        SearchOptions,
        Entries,
        doc="""Search an agent's memories of conversations.

    By meaning and by words, the best first; of one type, or of a least importance, if asked. Needs a worker that answers.
    """,
    ),
    change("conversations.store", MemoryEntryInput, StoredMemory, scope="publish"),
    read("conversations.get", MemoryId, FoundMemory),
    change("conversations.delete", MemoryId, Deletion, scope="admin"),
    change("conversations.delete_all", AgentId, Deletion, scope="admin"),
    read("conversations.stats", Nothing, MemoryStats),
    read("conversations.export", ExportMemories, Entries),
    change("conversations.import", ImportMemories, Imported, scope="publish", large=True),
    read("conversations.database", Nothing, DatabasePath),
    read("conversations.init", Nothing, Done),
    read(
        "conversations.context",
        ContextRequest,
        InjectedContext,
        large=True,
        doc="""Build what belongs before an answer.

    The agent's preferences, knowledge, experiences and turns of earlier conversations that matter for the query, within a
    budget of tokens. Empty if nothing was found. Needs a worker that answers.
    """,
    ),
    read(
        "conversations.inject",
        InjectRequest,
        InjectedContext,
        large=True,
        doc="""Put what is remembered into a prompt.

    The prompt with the context that conversations.context builds; unchanged if nothing was found. Needs a worker that answers.
    """,
    ),
    read(
        "conversations.extract",
        ExtractMessages,
        SessionMemories,
        large=True,
        doc="""Extract what a conversation tells.

    Memories, experiences and signals for the profile, without storing anything. Needs a worker that answers.
    """,
    ),
    read(
        "conversations.compact",
        CompactMessages,
        Compacted,
        large=True,
        doc="""Compact a conversation.

    Older messages become a summary, the latest stay; a tool's call and its result are never parted. Stores nothing.
    """,
    ),
    change("conversations.record", ExtractMessages, StoredSession, scope="publish", large=True),
    read("conversations.check_length", CheckThreshold, Threshold, large=True),
    read(
        "resources.find",
        FindOptions,
        Entries,
        doc="""Find memories below an address.

    By meaning and by words, among those of the address's agent only. Needs a worker that answers.
    """,
    ),
    change("resources.add", AddResource, StoredMemory, scope="publish", large=True),
    read("resources.grep", GrepOptions, Entries),
    read("resources.list", ResourceUri, Resources),
    read("resources.tree", TreeOptions, Resources),
    read("resources.read", ReadOptions, ResourceTexts),
    change("resources.remove", ResourceUri, Deletion, scope="admin"),
    read("resources.status", Nothing, StorageStatus),
    change("industry_words.set", IndustryWords, Done, scope="admin", large=True),
    read("tokens.estimate", EstimateTokens, Tokens, large=True),
    read("tokens.estimate_messages", CountMessages, Tokens, large=True),
    # Tiers.
    change("quarantine.delete", DeleteEntries, DeletedEntries, scope="admin"),
    change("quarantine.check", CheckBody, CheckedEntries, scope="admin"),
    read("quarantine.outcome", EntryQuery, IngestState | None),
    read("working_memory.show", WorkingMemoryQuery, WorkingState),
    change("knowledge.promote", PromoteBody, Promoted, scope="admin"),
    change("knowledge.demote", DemoteBody, Demoted, scope="admin"),
    change("knowledge.edit", EditKnowledge, CurrentVersion, scope="admin"),
    read("knowledge.list", KnowledgeFilter, KnowledgePage, scope="admin"),
    read("knowledge.history", HistoryQuery, list[Change]),
    change(
        "digests.make",
        DigestBody,
        DigestState,
        scope="admin",
        queue="reflection",
        doc="""Digest quarantine now.

    Groups what agents said, and nobody has promoted, by what it is about, and sums each up, so that somebody can choose
    what to promote. The same is done every week. Needs a worker that answers.
    """,
    ),
    read("digests.list", DigestsQuery, DigestPage, scope="admin"),
    read(
        "context.build",
        ContextBody,
        ContextAnswer,
        doc="""Put a prompt together with what the group knows.

    The group's words, who the agent is, the five memories that matter most, and what is to be decided, in at most so many
    tokens: the memories give way first, and parts says what was cut, and why. What is in quarantine is never among it. Needs
    a worker that answers.
    """,
    ),
    # Growth.
    read("skills.list", ArtifactsQuery, ArtifactRows),
    read("skills.get", ArtifactId, ArtifactState),
    change("skills.accept", Deciding, ArtifactState, scope="admin"),
    change("skills.decline", Deciding, ArtifactState, scope="admin"),
    change("skills.enable", ArtifactId, ArtifactState, scope="admin"),
    change("skills.disable", ArtifactId, ArtifactState, scope="admin"),
    change("skills.archive", Deciding, ArtifactState, scope="admin"),
    change("skills.delete", ArtifactId, ArtifactState, scope="admin"),
    read("workflows.list", ArtifactsQuery, ArtifactRows),
    read("workflows.get", ArtifactId, ArtifactState),
    change("workflows.accept", Deciding, ArtifactState, scope="admin"),
    change("workflows.decline", Deciding, ArtifactState, scope="admin"),
    change("workflows.enable", ArtifactId, ArtifactState, scope="admin"),
    change("workflows.disable", ArtifactId, ArtifactState, scope="admin"),
    change("workflows.archive", Deciding, ArtifactState, scope="admin"),
    change("workflows.delete", ArtifactId, ArtifactState, scope="admin"),
    change("feedback.give", GiveFeedback, GivenFeedback, scope="publish"),
    read("feedback.list", VotesQuery, VoteRows),
    read("feedback.trust", TrustQuery, TrustRows),
    read("patterns.list", PatternsQuery, PatternRows),
    read("evolution.list", EvolutionQuery, EvolutionRows),
    read("evolution.hint", HintQuery, Hint),
    read("trajectories.list", TrajectoriesQuery, TrajectoryRows),
    read("trajectories.get", TrajectoryId, TrajectoryState),
    read("trajectories.steps", StepsQuery, StepRows),
    read("pains.list", ListPains, PainPage),
    read("pains.get", PainId, PainDetail),
    change("pains.report", ReportPain, PainChanged, scope="publish"),
    change("pains.resolve", ResolvePain, PainChanged, scope="publish"),
    change("pains.propose", ProposeSolution, ProposalAsked, scope="publish"),
    change("identity.propose", ProposeChange, IdentityProposal, scope="publish"),
    change("identity.approve", DecideProposal, IdentityFile, scope="admin"),
    change("identity.reject", DecideProposal, IdentityProposal, scope="admin"),
    change("identity.update_user", UpdateUser, IdentityFile, scope="publish"),
    change("identity.snapshot", TakeSnapshot, SnapshotState, scope="publish"),
    change("identity.rollback", Rollback, ChangedFiles, scope="admin"),
    read("identity.list", OfAgent, FileStates),
    read("identity.get", GetFile, IdentityFile),
    read("identity.prompt", ComposePrompt, ComposedPrompt),
    read("identity.history", FileHistory, VersionPage),
    read("identity.diff", DiffFiles, Difference),
    read("identity.proposals", ListProposals, ProposalPage),
    read("identity.versions", ListSnapshots, SnapshotPage),
    read("self_review.get", OfAgent, SelfState),
    change("self_review.configure", ConfigureSelf, SelfState, scope="admin"),
    read("self_review.due", OfAgent, SelfState),
    change("self_review.run", OfAgent, ReflectionAsked, scope="publish"),
    read("self_review.list", ListLooks, LookPage),
    read("self_review.show", LookId, LookDetail),
    read("tallies.list", TallyQuery, Tallies),
    # Appointments and heartbeats.
    read("appointments.parse", ParseSchedule, ScheduleParse),
    change("appointments.create", CreateSchedule, CreatedSchedule, scope="publish"),
    read("appointments.list", ListSchedules, Schedules),
    read("appointments.get", ScheduleId, ScheduleDetails),
    read("appointments.runs", ListRuns, ScheduleRuns),
    change("appointments.pause", ScheduleId, ScheduleState, scope="publish"),
    change("appointments.resume", ScheduleId, ScheduleState, scope="publish"),
    change("appointments.delete", ScheduleId, Deleted, scope="publish"),
    change(
        "appointments.ask",
        AskSchedules,
        AskedSchedules,
        scope="publish",
        doc="""Do what a message asks of the agent's appointments.

    Take down a new one, cancel or move the one that is meant, list what is planned; in Chinese and in English. If several fit, or
    none, nothing is changed and the answer asks back. A message that asks for nothing changes nothing. Needs a worker that answers.
    """,
    ),
    read("heartbeats.get", AgentId, HeartbeatConfig),
    change("heartbeats.configure", ConfigureHeartbeat, HeartbeatState, scope="publish"),
    change("heartbeats.enable", AgentId, HeartbeatState, scope="publish"),
    change("heartbeats.disable", AgentId, HeartbeatState, scope="publish"),
    change("heartbeats.tick", AgentId, TickResult, scope="publish"),
    read("heartbeats.status", AgentId, HeartbeatState),
    read("heartbeats.history", ListTicks, Ticks),
    read("heartbeats.alerts", ListAlerts, Alerts),
    change("heartbeats.acknowledge", AcknowledgeAlerts, Acknowledged, scope="publish"),
    change("heartbeats.interact", AgentId, HeartbeatState, scope="publish"),
    change("heartbeats.correct", CorrectAgent, HeartbeatState, scope="publish"),
    read("health.snapshot", HealthRequest, Health),
    # Stores and items.
    change("stores.apply", ApplyGraph, AppliedGraph, scope="admin"),
    read("stores.schema", SchemaQuery, StoreSchema),
    read("stores.list", StoresQuery, StorePage),
    read("stores.show", StoreName, StoreState),
    read("stores.items", ItemsQuery, ItemPage),
    read("stores.files", FilesQuery, FilePage),
    read("stores.attachment", AttachmentQuery, AttachmentBytes),
    change("stores.load", StoreName, StoreState, scope="publish"),
    read(
        "stores.retrieve",
        RetrieveItems,
        FoundStoreItems,
        large=True,
        doc="""Search a store.

    Its items that fit the question best, with the parts of their scores; a blackboard's latest, oldest first. What has no
    vector yet is found by its words. Needs a worker that answers.
    """,
    ),
    change("stores.update", UpdateStore, WrittenItem, scope="publish", large=True),
    change("stores.save", StoreName, SavedStore, scope="publish", large=True),
    change("stores.reindex", StoreName, ReindexedStore, scope="admin"),
    change("stores.delete", StoreName, DeletedStore, scope="admin"),
    read("stores.map", MapQuery, StoreMap),
    change("stores.log", LogOperation, LoggedOperation, scope="publish"),
    read("stores.operations", OperationsQuery, OperationPage),
    read(
        "items.search",
        SearchItems,
        ItemRows,
        doc="""Search items.

    Below a namespace, with fields that fulfil a filter; the most similar to a query first, or those updated last. What was
    stored before is found. Needs a worker that answers.
    """,
    ),
    change("items.put", PutItems, ItemsWritten, scope="publish", large=True),
    read("items.get", GetItems, FoundItems),
    read("items.namespaces", ListNamespaces, Namespaces),
    # The service.
    read("keys.list", ListKeys, list[Key], scope="admin", across_groups=True),
    change("keys.create", CreateKey, Key, scope="admin", across_groups=True),
    change("keys.rotate", RotateKey, Key, scope="admin", across_groups=True),
    change("keys.revoke", RevokeKey, Key, scope="admin", across_groups=True),
    read("people.list", ListPeople, list[Person], scope="operator", whole_service=True),
    change("people.add", AddPerson, Person, scope="operator", whole_service=True),
    change("people.set_password", SetPassword, Person, scope="read", whole_service=True),
    change("people.disable", PersonRequest, Person, scope="operator", whole_service=True),
    change("people.enable", PersonRequest, Person, scope="operator", whole_service=True),
    read(
        "erasure.preview",
        Erasure,
        ErasurePreview,
        scope="admin",
        doc="""Tell what an erasure would take along.

How much by kind, whole agents by name, and some of the memories. Changes nothing.""",
    ),
    change("erasure.request", Erasure, ErasureRequested, scope="admin"),
    read("erasure.get", ErasureQuery, ErasureState, scope="admin"),
    read("erasure.list", ErasuresQuery, ErasureRows, scope="admin"),
    read("dead_letters.list", LettersRequest, DeadLetterPage, across_groups=True),
    read("dead_letters.get", LetterRequest, DeadLetter, across_groups=True),
    change("dead_letters.resolve", ResolveBody, Resolved, scope="admin", across_groups=True),
    change("pending_work.retry", RetryWork, Retried, scope="admin", across_groups=True),
    read("jobs.list", JobsRequest, list[JobState], scope="operator"),
    change("jobs.run", RunJob, Tick, scope="operator", whole_service=True),
    read("jobs.tick", TickRequest, Tick | None, scope="operator"),
    read(
        "jobs.preview",
        RunJob,
        Tick,
        scope="operator",
        doc="""Tell what a scheduled job would do now.

It runs in transactions that cannot write. Changes nothing.""",
    ),
    read("stats.show", StatsRequest, ServiceStats, across_groups=True),
    read(
        "embedders.embed",
        EmbedText,
        EmbeddedText,
        doc="""Make the vector of a text.

    By the deployment's embedder, or by the one named; with the pieces that the text would be stored in and their keywords.
    """,
    ),
    change(
        "embedders.configure",
        ConfigureEmbedding,
        MoveState,
        scope="operator",
        queue="embedding",
        doc="""Move the deployment to another embedder.

    Begins the move, or does its next step; call it until its phase is done. Keys are taken from the environment.
    """,
    ),
    read(
        "embedders.show",
        EmbeddersRequest,
        EmbedderReport,
        scope="operator",
        doc="""List the embedders.

    Those there are with their models and sizes, the one in use, and how many memories each has embedded.
    """,
    ),
    change(
        "reembedding.step",
        ReembeddingStep,
        MoveState,
        scope="operator",
        queue="embedding",
        doc="""Do the next step of moving the deployment to another embedding model.

Repeat it until its phase is done.""",
    ),
    read(
        "llms.check",
        ConfigureSummaries,
        DriverState,
        scope="operator",
        doc="""Check which LLM summaries are made by.

    Whether it is the one named, and what has to be set in the environment if not: endpoints and keys are not kept in the database.
    """,
    ),
    read(
        "llms.show",
        LLMsRequest,
        LLMReport,
        scope="operator",
        doc="""Show the LLM in use with the state of its breaker, the vendors there are, and what the group has used.""",
    ),
)
#: Name → what is declared of it.
TABLE: Mapping[str, Declaration] = {row.name: row for row in _ROWS}
#: Folder of the REST API → alias → name. ``POST /<folder>/<alias>`` is the action.
FOLDERS: Mapping[str, Mapping[str, str]] = from_json(files("jiyi.protocol").joinpath("aliases.json").read_bytes())
#: Alias → name.
ALIASES: Mapping[str, str] = {alias: name for folder in FOLDERS.values() for alias, name in folder.items()}


#: Name → aliases.
ALIASES_OF: Mapping[str, tuple[str, ...]] = {name: tuple(alias for alias in ALIASES if ALIASES[alias] == name) for name in TABLE}


def name_of(name: str) -> str:
    """The name of the action that goes by this name or alias; what is neither stays as it is."""
    return ALIASES.get(name, name)
