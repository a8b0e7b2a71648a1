"""Every action of the service as a method of the client: ``client.keys.list()``.

``python -m tools.client`` writes this from :mod:`jiyi.protocol`: edit that.
"""

from __future__ import annotations

import builtins
from uuid import UUID

from jiyi.client import by_hand
from jiyi.client.calls import Calls, Namespace, W
from jiyi.client.verbs import Answers
from jiyi.protocol import (
    accounts,
    appointments,
    artifacts,
    base,
    conversation_commands,
    conversations,
    erasure,
    event_requests,
    experiences,
    growth,
    identity,
    items,
    knowledge,
    memory,
    operations,
    proposals,
    providers,
    recall,
    reflection,
    retrieval,
    stores,
    tier_questions,
)


class AgentsActions(Namespace[W]):
    configure = Answers[memory.AgentState].to(memory.ConfigureAgent)
    get = Answers[memory.AgentState].to(base.AgentForUser)
    list = Answers[base.Rows[memory.AgentState]].to(base.Paged)


class AppointmentsActions(Namespace[W]):
    ask = Answers[appointments.AskedSchedules].to(appointments.AskSchedules)
    create = Answers[appointments.AskedSchedules].to(appointments.CreateSchedule)
    delete = Answers[base.Count].to(base.ById)
    get = Answers[appointments.ScheduleState].to(base.ById)
    list = Answers[base.Rows[appointments.ScheduleState]].to(appointments.ListSchedules)
    parse = Answers[appointments.ScheduleParse].to(appointments.ParseSchedule)
    update = Answers[appointments.ScheduleState].to(appointments.UpdateSchedule)


class ArchiveActions(Namespace[W]):
    archive = Answers[base.Count].to(base.ByIds)
    restore = Answers[base.Count].to(memory.RestoreRequest)


class ConversationsActions(Namespace[W]):
    check_length = Answers[conversations.Threshold].to(conversations.CheckThreshold)
    compact = Answers[conversations.Compacted].to(conversations.CompactMessages)
    context = Answers[recall.InjectedContext].to(conversations.ContextRequest)
    delete = Answers[base.Count].to(base.ByIdForUser)
    delete_all = Answers[base.Count].to(base.OfAgent)
    export = Answers[base.Rows[memory.Memory]].to(base.OfAgents)
    extract = Answers[conversation_commands.SessionMemories].to(conversation_commands.ExtractMessages)
    get = Answers[memory.Memory | None].to(base.ByIdForUser)
    import_ = Answers[base.Count].to(conversation_commands.ImportMemories)
    judge = Answers[base.Count].to(conversation_commands.JudgeTurn)
    judged = Answers[base.Rows[conversation_commands.LabelledTurn]].to(base.OfAgents)
    record = Answers[conversation_commands.StoredSession].to(conversation_commands.ExtractMessages)
    search = Answers[base.Rows[retrieval.ScoredMemory]].to(conversation_commands.SearchOptions)
    stats = Answers[conversation_commands.MemoryStats].to(base.Request)
    store = Answers[base.Made].to(conversation_commands.MemoryEntryInput)


class DeadLettersActions(Namespace[W]):
    get = Answers[operations.DeadLetter].to(base.ById)
    list = Answers[base.Rows[operations.DeadLetter]].to(operations.LettersRequest)
    resolve = Answers[operations.Resolved].to(operations.ResolveBody)


class DigestsActions(Namespace[W]):
    list = Answers[base.Rows[knowledge.DigestState]].to(knowledge.DigestsQuery)
    make = Answers[knowledge.DigestState].to(knowledge.DigestBody)


class EmbeddersActions(Namespace[W]):
    embed = Answers[conversation_commands.EmbeddedText].to(conversation_commands.EmbedText)
    show = Answers[providers.EmbedderReport].to(base.Request)


class ErasureActions(by_hand.ErasureBase[W]):
    get = Answers[erasure.ErasureState].to(base.ById)
    list = Answers[base.Rows[erasure.ErasureState]].to(base.Paged)
    preview = Answers[erasure.ErasurePreview].to(erasure.Erasure)
    request = Answers[erasure.ErasureState].to(erasure.Erasure)


class EventsActions(Namespace[W]):
    states = Answers[base.Rows[event_requests.EventState]].to(event_requests.EventStatesQuery)


class EvolutionActions(Namespace[W]):
    hint = Answers[artifacts.Hint].to(base.AgentForUser)


class ExperiencesActions(Namespace[W]):
    delete = Answers[base.Count].to(base.ById)
    find = Answers[base.Rows[experiences.Experience]].to(conversation_commands.SearchOptions)
    get = Answers[experiences.Experience].to(base.ByIdForUser)
    list = Answers[base.Rows[experiences.Experience]].to(experiences.ListExperiences)
    store = Answers[experiences.Experience].to(experiences.TellExperience)
    update = Answers[experiences.Experience].to(experiences.UpdateExperience)


class FeedbackActions(Namespace[W]):
    give = Answers[artifacts.GivenFeedback].to(artifacts.GiveFeedback)


class HealthActions(Namespace[W]):
    snapshot = Answers[appointments.Health].to(appointments.HealthRequest)


class HeartbeatsActions(Namespace[W]):
    acknowledge = Answers[base.Count].to(base.ByIds)
    alerts = Answers[base.Rows[appointments.AlertState]].to(appointments.ListAlerts)
    configure = Answers[appointments.HeartbeatState].to(appointments.ConfigureHeartbeat)
    status = Answers[appointments.HeartbeatState].to(base.OfAgent)
    tick = Answers[appointments.TickState].to(base.OfAgent)


class IdentityActions(Namespace[W]):
    get = Answers[identity.IdentityFile].to(identity.GetFile)
    history = Answers[base.Rows[identity.IdentityFile]].to(identity.FileHistory)
    prompt = Answers[identity.ComposedPrompt].to(identity.ComposePrompt)
    propose = Answers[proposals.FileProposal].to(identity.ProposeChange)
    rollback = Answers[base.Rows[identity.IdentityFile]].to(identity.Rollback)
    snapshot = Answers[identity.SnapshotState].to(identity.TakeSnapshot)
    update_user = Answers[identity.IdentityFile].to(identity.UpdateUser)
    versions = Answers[base.Rows[identity.SnapshotState]].to(identity.ListSnapshots)


class IndustryWordsActions(Namespace[W]):
    set = Answers[base.Count].to(conversation_commands.IndustryWords)


class ItemsActions(Namespace[W]):
    get = Answers[base.Rows[items.Item | None]].to(items.Items[items.ItemReference])
    namespaces = Answers[base.Rows[builtins.list[str]]].to(items.ListNamespaces)
    put = Answers[items.ItemsWritten].to(items.Items[items.ItemWrite])
    search = Answers[base.Rows[items.Item]].to(items.SearchItems)


class JobsActions(by_hand.JobsBase[W]):
    list = Answers[base.Rows[operations.JobState]].to(base.Request)
    tick = Answers[operations.Tick | None].to(operations.TickRequest)


class KeysActions(by_hand.KeysBase[W]):
    list = Answers[builtins.list[accounts.Key]].to(accounts.ListKeys)
    revoke = Answers[accounts.Key].to(accounts.RevokeKey)


class KnowledgeActions(Namespace[W]):
    context = Answers[tier_questions.ContextAnswer].to(tier_questions.ContextBody)
    demote = Answers[base.Rows[UUID]].to(knowledge.DemoteBody)
    edit = Answers[knowledge.KnowledgeDetail].to(knowledge.EditKnowledge)
    history = Answers[base.Rows[knowledge.Change]].to(base.ById)
    list = Answers[knowledge.KnowledgePage].to(knowledge.ListKnowledge)
    promote = Answers[knowledge.Promoted].to(knowledge.PromoteBody)


class LlmsActions(Namespace[W]):
    check = Answers[conversation_commands.DriverState].to(conversation_commands.ConfigureSummaries)
    forget = Answers[base.Count].to(base.Request)
    show = Answers[providers.LLMReport].to(operations.LLMsRequest)


class MemoryActions(Namespace[W]):
    add = Answers[base.Made].to(recall.AddMemory)
    context = Answers[recall.RecalledContext].to(recall.RecallRequest)
    export = Answers[base.Rows[dict[str, object]]].to(memory.ExportQuery)
    forget = Answers[recall.Forgotten].to(recall.ForgetWhatWasSaid)
    get = Answers[memory.Memory].to(base.ByIdForUser)
    keywords = Answers[base.Rows[memory.KeywordStrength]].to(memory.KeywordsQuery)
    list = Answers[base.Rows[memory.Memory]].to(recall.ListMemories)
    mistakes = Answers[base.Rows[recall.Mistake]].to(base.OfAgents)
    rate = Answers[base.Count].to(memory.RateMemories)
    reinstate = Answers[recall.Updated].to(recall.ReinstateMemory)
    related = Answers[memory.Related].to(memory.RelatedQuery)
    update = Answers[recall.Updated].to(recall.UpdateMemory)
    why = Answers[reflection.Reasons].to(reflection.WhyQuery)


class PainsActions(Namespace[W]):
    get = Answers[growth.PainPoint].to(base.ById)
    list = Answers[base.Rows[growth.PainPoint]].to(growth.ListPains)
    propose = Answers[growth.PainChanged].to(growth.ProposeSolution)
    report = Answers[growth.PainChanged].to(growth.ReportPain)
    resolve = Answers[growth.PainChanged].to(growth.ResolvePain)


class PatternsActions(Namespace[W]):
    list = Answers[base.Rows[artifacts.PatternState]].to(base.OfAgent)


class PendingWorkActions(Namespace[W]):
    retry = Answers[base.Count].to(operations.RetryWork)


class PeopleActions(by_hand.PeopleBase[W]):
    list = Answers[builtins.list[accounts.Person]].to(base.Request)
    update = Answers[accounts.Person].to(accounts.UpdatePerson)


class PromptsActions(Namespace[W]):
    show = Answers[base.Rows[conversation_commands.ShownPrompt]].to(conversation_commands.ShowPrompts)


class ProposalsActions(Namespace[W]):
    decide = Answers[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal].to(
        proposals.Deciding
    )
    get = Answers[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal].to(base.ById)
    list = Answers[
        base.Rows[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal]
    ].to(proposals.ListProposals)


class QuarantineActions(by_hand.QuarantineBase[W]):
    check = Answers[base.Rows[UUID]].to(knowledge.CheckBody)
    delete = Answers[base.Rows[UUID]].to(knowledge.DeleteEntries)
    outcome = Answers[knowledge.IngestState | None].to(base.ById)


class ReembeddingActions(Namespace[W]):
    step = Answers[providers.MoveState].to(providers.ReembeddingStep)


class ReflectionActions(Namespace[W]):
    get = Answers[reflection.ReflectionState].to(base.ById)
    request = Answers[base.Made].to(base.OfAgent)


class ResourcesActions(Namespace[W]):
    add = Answers[base.Made].to(conversation_commands.MemoryEntryInput)
    find = Answers[base.Rows[retrieval.ScoredMemory]].to(conversation_commands.FindOptions)
    grep = Answers[base.Rows[memory.Memory]].to(conversation_commands.GrepOptions)
    list = Answers[base.Rows[conversation_commands.Resource]].to(conversation_commands.ListResources)
    read = Answers[base.Rows[conversation_commands.ResourceText]].to(conversation_commands.ReadOptions)
    remove = Answers[base.Count].to(conversation_commands.ResourceUri)
    status = Answers[conversation_commands.StorageStatus].to(base.Request)


class RetrievalActions(Namespace[W]):
    again = Answers[recall.AskedAgain].to(base.ById)
    list = Answers[base.Rows[recall.RetrievalRecord]].to(base.OfAgents)


class SelfReviewActions(Namespace[W]):
    configure = Answers[growth.SelfState].to(growth.ConfigureSelf)
    get = Answers[growth.SelfState].to(base.OfAgent)
    list = Answers[base.Rows[reflection.ReflectionState]].to(reflection.ReflectionsQuery)
    run = Answers[base.Made].to(base.OfAgent)
    show = Answers[reflection.ReflectionState].to(base.ById)


class StatsActions(Namespace[W]):
    show = Answers[operations.ServiceStats].to(base.Request)


class StoresActions(Namespace[W]):
    apply = Answers[stores.AppliedGraph].to(stores.ApplyGraph)
    attachment = Answers[stores.Attachment].to(stores.AttachmentQuery)
    delete = Answers[base.Count].to(stores.StoreName)
    files = Answers[base.Rows[stores.ListedFile]].to(stores.FilesQuery)
    items = Answers[base.Rows[stores.ListedItem]].to(stores.ItemsQuery)
    list = Answers[base.Rows[stores.StoreState]].to(stores.StoresQuery)
    load = Answers[stores.StoreState].to(stores.StoreName)
    log = Answers[base.Made].to(stores.LogOperation)
    reindex = Answers[base.Count].to(stores.StoreName)
    retrieve = Answers[stores.FoundStoreItems].to(stores.RetrieveItems)
    save = Answers[stores.SavedStore].to(stores.StoreName)
    schema = Answers[dict[str, object]].to(base.Request)
    show = Answers[stores.StoreState].to(stores.StoreName)
    update = Answers[stores.WrittenItem].to(stores.UpdateStore)


class TalliesActions(Namespace[W]):
    list = Answers[base.Rows[identity.Tally]].to(identity.TallyQuery)


class TokensActions(Namespace[W]):
    estimate = Answers[base.Count].to(conversations.EstimateTokens)


class WorkersActions(Namespace[W]):
    list = Answers[operations.WorkersReport].to(base.Request)
    set_mode = Answers[base.Count].to(operations.SetWorkerMode)


class WorkingMemoryActions(Namespace[W]):
    show = Answers[knowledge.WorkingMemory].to(base.Request)


class Subjects(Namespace[W]):
    """The actions, by their subjects."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.agents: AgentsActions[W] = AgentsActions(calls)
        self.appointments: AppointmentsActions[W] = AppointmentsActions(calls)
        self.archive: ArchiveActions[W] = ArchiveActions(calls)
        self.conversations: ConversationsActions[W] = ConversationsActions(calls)
        self.dead_letters: DeadLettersActions[W] = DeadLettersActions(calls)
        self.digests: DigestsActions[W] = DigestsActions(calls)
        self.embedders: EmbeddersActions[W] = EmbeddersActions(calls)
        self.erasure: ErasureActions[W] = ErasureActions(calls)
        self.events: EventsActions[W] = EventsActions(calls)
        self.evolution: EvolutionActions[W] = EvolutionActions(calls)
        self.experiences: ExperiencesActions[W] = ExperiencesActions(calls)
        self.feedback: FeedbackActions[W] = FeedbackActions(calls)
        self.health: HealthActions[W] = HealthActions(calls)
        self.heartbeats: HeartbeatsActions[W] = HeartbeatsActions(calls)
        self.identity: IdentityActions[W] = IdentityActions(calls)
        self.industry_words: IndustryWordsActions[W] = IndustryWordsActions(calls)
        self.items: ItemsActions[W] = ItemsActions(calls)
        self.jobs: JobsActions[W] = JobsActions(calls)
        self.keys: KeysActions[W] = KeysActions(calls)
        self.knowledge: KnowledgeActions[W] = KnowledgeActions(calls)
        self.llms: LlmsActions[W] = LlmsActions(calls)
        self.memory: MemoryActions[W] = MemoryActions(calls)
        self.pains: PainsActions[W] = PainsActions(calls)
        self.patterns: PatternsActions[W] = PatternsActions(calls)
        self.pending_work: PendingWorkActions[W] = PendingWorkActions(calls)
        self.people: PeopleActions[W] = PeopleActions(calls)
        self.prompts: PromptsActions[W] = PromptsActions(calls)
        self.proposals: ProposalsActions[W] = ProposalsActions(calls)
        self.quarantine: QuarantineActions[W] = QuarantineActions(calls)
        self.reembedding: ReembeddingActions[W] = ReembeddingActions(calls)
        self.reflection: ReflectionActions[W] = ReflectionActions(calls)
        self.resources: ResourcesActions[W] = ResourcesActions(calls)
        self.retrieval: RetrievalActions[W] = RetrievalActions(calls)
        self.self_review: SelfReviewActions[W] = SelfReviewActions(calls)
        self.stats: StatsActions[W] = StatsActions(calls)
        self.stores: StoresActions[W] = StoresActions(calls)
        self.tallies: TalliesActions[W] = TalliesActions(calls)
        self.tokens: TokensActions[W] = TokensActions(calls)
        self.workers: WorkersActions[W] = WorkersActions(calls)
        self.working_memory: WorkingMemoryActions[W] = WorkingMemoryActions(calls)
