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


class Agents(Namespace[W]):
    configure = Answers[memory.AgentState].to(memory.ConfigureAgent)
    get = Answers[memory.AgentState].to(base.AgentForUser)
    list = Answers[base.Rows[memory.AgentState]].to(base.Paged)


class Appointments(Namespace[W]):
    ask = Answers[appointments.AskedSchedules].to(appointments.AskSchedules)
    create = Answers[appointments.AskedSchedules].to(appointments.CreateSchedule)
    delete = Answers[base.Count].to(base.ById)
    get = Answers[appointments.ScheduleState].to(base.ById)
    list = Answers[base.Rows[appointments.ScheduleState]].to(appointments.ListSchedules)
    parse = Answers[appointments.ScheduleParse].to(appointments.ParseSchedule)
    update = Answers[appointments.ScheduleState].to(appointments.UpdateSchedule)


class Archive(Namespace[W]):
    archive = Answers[base.Count].to(base.ByIds)
    restore = Answers[base.Count].to(memory.RestoreRequest)


class Conversations(Namespace[W]):
    check_length = Answers[conversations.Threshold].to(conversations.CheckThreshold)
    compact = Answers[conversations.Compacted].to(conversations.CompactMessages)
    context = Answers[recall.InjectedContext].to(conversations.ContextRequest)
    delete = Answers[conversation_commands.Deletion].to(base.ByIdForUser)
    delete_all = Answers[conversation_commands.Deletion].to(base.OfAgent)
    export = Answers[base.Rows[memory.Memory]].to(base.OfAgents)
    extract = Answers[conversation_commands.SessionMemories].to(conversation_commands.ExtractMessages)
    get = Answers[memory.Memory | None].to(base.ByIdForUser)
    import_ = Answers[base.Count].to(conversation_commands.ImportMemories)
    judge = Answers[base.Count].to(conversation_commands.JudgeTurn)
    judged = Answers[base.Rows[conversation_commands.LabelledTurn]].to(base.OfAgents)
    record = Answers[conversation_commands.StoredSession].to(conversation_commands.ExtractMessages)
    search = Answers[base.Rows[retrieval.ScoredMemory]].to(conversation_commands.SearchOptions)
    stats = Answers[conversation_commands.MemoryStats].to(base.Request)
    store = Answers[base.Added].to(conversation_commands.MemoryEntryInput)


class DeadLetters(Namespace[W]):
    get = Answers[operations.DeadLetter].to(base.ById)
    list = Answers[base.Rows[operations.DeadLetter]].to(operations.LettersRequest)
    resolve = Answers[operations.Resolved].to(operations.ResolveBody)


class Digests(Namespace[W]):
    list = Answers[base.Rows[knowledge.DigestState]].to(knowledge.DigestsQuery)
    make = Answers[knowledge.DigestState].to(knowledge.DigestBody)


class Embedders(Namespace[W]):
    embed = Answers[conversation_commands.EmbeddedText].to(conversation_commands.EmbedText)
    show = Answers[providers.EmbedderReport].to(base.Request)


class Erasure(by_hand.Erasure[W]):
    get = Answers[erasure.ErasureState].to(base.ById)
    list = Answers[base.Rows[erasure.ErasureState]].to(base.Paged)
    preview = Answers[erasure.ErasurePreview].to(erasure.Erasure)
    request = Answers[erasure.ErasureState].to(erasure.Erasure)


class Events(Namespace[W]):
    states = Answers[base.Rows[event_requests.EventState]].to(event_requests.EventStatesQuery)


class Evolution(Namespace[W]):
    hint = Answers[artifacts.Hint].to(base.AgentForUser)


class Experiences(Namespace[W]):
    delete = Answers[conversation_commands.Deletion].to(base.ById)
    find = Answers[base.Rows[experiences.Experience]].to(experiences.FindExperiences)
    get = Answers[experiences.Experience].to(base.ByIdForUser)
    list = Answers[base.Rows[experiences.Experience]].to(experiences.ListExperiences)
    store = Answers[experiences.Experience].to(experiences.TellExperience)
    update = Answers[experiences.Experience].to(experiences.UpdateExperience)


class Feedback(Namespace[W]):
    give = Answers[artifacts.GivenFeedback].to(artifacts.GiveFeedback)


class Health(Namespace[W]):
    snapshot = Answers[appointments.Health].to(appointments.HealthRequest)


class Heartbeats(Namespace[W]):
    acknowledge = Answers[base.Count].to(base.ByIds)
    alerts = Answers[base.Rows[appointments.AlertState]].to(appointments.ListAlerts)
    configure = Answers[appointments.HeartbeatState].to(appointments.ConfigureHeartbeat)
    status = Answers[appointments.HeartbeatState].to(base.OfAgent)
    tick = Answers[appointments.TickState].to(base.OfAgent)


class Identity(Namespace[W]):
    get = Answers[identity.IdentityFile].to(identity.GetFile)
    history = Answers[base.Rows[identity.IdentityFile]].to(identity.FileHistory)
    prompt = Answers[identity.ComposedPrompt].to(identity.ComposePrompt)
    propose = Answers[proposals.FileProposal].to(identity.ProposeChange)
    rollback = Answers[base.Rows[identity.IdentityFile]].to(identity.Rollback)
    snapshot = Answers[identity.SnapshotState].to(identity.TakeSnapshot)
    update_user = Answers[identity.IdentityFile].to(identity.UpdateUser)
    versions = Answers[base.Rows[identity.SnapshotState]].to(identity.ListSnapshots)


class IndustryWords(Namespace[W]):
    set = Answers[base.Count].to(conversation_commands.IndustryWords)


class Items(Namespace[W]):
    get = Answers[base.Rows[items.Item | None]].to(items.Items[items.ItemReference])
    namespaces = Answers[base.Rows[builtins.list[str]]].to(items.ListNamespaces)
    put = Answers[items.ItemsWritten].to(items.Items[items.ItemWrite])
    search = Answers[base.Rows[items.Item]].to(items.SearchItems)


class Jobs(by_hand.Jobs[W]):
    list = Answers[base.Rows[operations.JobState]].to(base.Request)
    tick = Answers[operations.Tick | None].to(operations.TickRequest)


class Keys(by_hand.Keys[W]):
    list = Answers[builtins.list[accounts.Key]].to(accounts.ListKeys)
    revoke = Answers[accounts.Key].to(accounts.RevokeKey)


class Knowledge(Namespace[W]):
    context = Answers[tier_questions.ContextAnswer].to(tier_questions.ContextBody)
    demote = Answers[base.Rows[UUID]].to(knowledge.DemoteBody)
    edit = Answers[knowledge.KnowledgeDetail].to(knowledge.EditKnowledge)
    history = Answers[base.Rows[knowledge.Change]].to(base.ById)
    list = Answers[knowledge.KnowledgePage].to(knowledge.ListKnowledge)
    promote = Answers[knowledge.Promoted].to(knowledge.PromoteBody)


class Llms(Namespace[W]):
    check = Answers[conversation_commands.DriverState].to(conversation_commands.ConfigureSummaries)
    forget = Answers[base.Count].to(base.Request)
    show = Answers[providers.LLMReport].to(operations.LLMsRequest)


class Memory(Namespace[W]):
    add = Answers[base.Added].to(recall.AddMemory)
    context = Answers[recall.RecalledContext].to(recall.RecallRequest)
    export = Answers[base.Rows[dict[str, object]]].to(memory.ExportQuery)
    forget = Answers[recall.Forgotten].to(recall.ForgetWhatWasSaid)
    get = Answers[memory.Memory].to(base.ByIdForUser)
    keywords = Answers[base.Rows[memory.KeywordStrength]].to(memory.KeywordsQuery)
    list = Answers[base.Rows[memory.Memory]].to(recall.ListMemories)
    mistakes = Answers[base.Rows[recall.Mistake]].to(base.OfAgents)
    rate = Answers[base.Count].to(memory.RateMemories)
    reinstate = Answers[recall.Reinstated].to(recall.ReinstateMemory)
    related = Answers[memory.Related].to(memory.RelatedQuery)
    update = Answers[recall.Updated].to(recall.UpdateMemory)
    why = Answers[reflection.Reasons].to(reflection.WhyQuery)


class Pains(Namespace[W]):
    get = Answers[growth.PainPoint].to(base.ById)
    list = Answers[base.Rows[growth.PainPoint]].to(growth.ListPains)
    propose = Answers[growth.PainChanged].to(growth.ProposeSolution)
    report = Answers[growth.PainChanged].to(growth.ReportPain)
    resolve = Answers[growth.PainChanged].to(growth.ResolvePain)


class Patterns(Namespace[W]):
    list = Answers[base.Rows[artifacts.PatternState]].to(artifacts.PatternsQuery)


class PendingWork(Namespace[W]):
    retry = Answers[base.Count].to(operations.RetryWork)


class People(by_hand.People[W]):
    list = Answers[builtins.list[accounts.Person]].to(base.Request)
    update = Answers[accounts.Person].to(accounts.UpdatePerson)


class Prompts(Namespace[W]):
    show = Answers[base.Rows[conversation_commands.ShownPrompt]].to(conversation_commands.ShowPrompts)


class Proposals(Namespace[W]):
    decide = Answers[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal].to(
        proposals.Deciding
    )
    get = Answers[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal].to(base.ById)
    list = Answers[
        base.Rows[proposals.SkillProposal | proposals.FileProposal | proposals.SolutionProposal]
    ].to(proposals.ListProposals)


class Quarantine(by_hand.Quarantine[W]):
    check = Answers[base.Rows[UUID]].to(knowledge.CheckBody)
    delete = Answers[base.Rows[UUID]].to(knowledge.DeleteEntries)
    outcome = Answers[knowledge.IngestState | None].to(base.ById)


class Reembedding(Namespace[W]):
    step = Answers[providers.MoveState].to(providers.ReembeddingStep)


class Reflection(Namespace[W]):
    get = Answers[reflection.ReflectionState].to(base.ById)
    request = Answers[base.Made].to(base.OfAgent)


class Resources(Namespace[W]):
    add = Answers[base.Added].to(conversation_commands.MemoryEntryInput)
    find = Answers[base.Rows[retrieval.ScoredMemory]].to(conversation_commands.FindOptions)
    grep = Answers[base.Rows[memory.Memory]].to(conversation_commands.GrepOptions)
    list = Answers[base.Rows[conversation_commands.Resource]].to(conversation_commands.ListResources)
    read = Answers[base.Rows[conversation_commands.ResourceText]].to(conversation_commands.ReadOptions)
    remove = Answers[conversation_commands.Deletion].to(conversation_commands.ResourceUri)
    status = Answers[conversation_commands.StorageStatus].to(base.Request)


class Retrieval(Namespace[W]):
    again = Answers[recall.AskedAgain].to(base.ById)
    list = Answers[base.Rows[recall.RetrievalRecord]].to(base.OfAgents)


class SelfReview(Namespace[W]):
    configure = Answers[growth.SelfState].to(growth.ConfigureSelf)
    get = Answers[growth.SelfState].to(base.OfAgent)
    list = Answers[base.Rows[reflection.ReflectionState]].to(reflection.ReflectionsQuery)
    run = Answers[base.Made].to(base.OfAgent)
    show = Answers[reflection.ReflectionState].to(base.ById)


class Stats(Namespace[W]):
    show = Answers[operations.ServiceStats].to(base.Request)


class Stores(Namespace[W]):
    apply = Answers[stores.AppliedGraph].to(stores.ApplyGraph)
    attachment = Answers[stores.AttachmentBytes].to(stores.AttachmentQuery)
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


class Tallies(Namespace[W]):
    list = Answers[base.Rows[identity.Tally]].to(identity.TallyQuery)


class Tokens(Namespace[W]):
    estimate = Answers[base.Count].to(conversations.EstimateTokens)


class Workers(Namespace[W]):
    list = Answers[operations.WorkersReport].to(base.Request)
    set_mode = Answers[base.Count].to(operations.SetWorkerMode)


class WorkingMemory(Namespace[W]):
    show = Answers[knowledge.WorkingMemory].to(base.Request)


class Subjects(Namespace[W]):
    """The actions, by their subjects."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.agents: Agents[W] = Agents(calls)
        self.appointments: Appointments[W] = Appointments(calls)
        self.archive: Archive[W] = Archive(calls)
        self.conversations: Conversations[W] = Conversations(calls)
        self.dead_letters: DeadLetters[W] = DeadLetters(calls)
        self.digests: Digests[W] = Digests(calls)
        self.embedders: Embedders[W] = Embedders(calls)
        self.erasure: Erasure[W] = Erasure(calls)
        self.events: Events[W] = Events(calls)
        self.evolution: Evolution[W] = Evolution(calls)
        self.experiences: Experiences[W] = Experiences(calls)
        self.feedback: Feedback[W] = Feedback(calls)
        self.health: Health[W] = Health(calls)
        self.heartbeats: Heartbeats[W] = Heartbeats(calls)
        self.identity: Identity[W] = Identity(calls)
        self.industry_words: IndustryWords[W] = IndustryWords(calls)
        self.items: Items[W] = Items(calls)
        self.jobs: Jobs[W] = Jobs(calls)
        self.keys: Keys[W] = Keys(calls)
        self.knowledge: Knowledge[W] = Knowledge(calls)
        self.llms: Llms[W] = Llms(calls)
        self.memory: Memory[W] = Memory(calls)
        self.pains: Pains[W] = Pains(calls)
        self.patterns: Patterns[W] = Patterns(calls)
        self.pending_work: PendingWork[W] = PendingWork(calls)
        self.people: People[W] = People(calls)
        self.prompts: Prompts[W] = Prompts(calls)
        self.proposals: Proposals[W] = Proposals(calls)
        self.quarantine: Quarantine[W] = Quarantine(calls)
        self.reembedding: Reembedding[W] = Reembedding(calls)
        self.reflection: Reflection[W] = Reflection(calls)
        self.resources: Resources[W] = Resources(calls)
        self.retrieval: Retrieval[W] = Retrieval(calls)
        self.self_review: SelfReview[W] = SelfReview(calls)
        self.stats: Stats[W] = Stats(calls)
        self.stores: Stores[W] = Stores(calls)
        self.tallies: Tallies[W] = Tallies(calls)
        self.tokens: Tokens[W] = Tokens(calls)
        self.workers: Workers[W] = Workers(calls)
        self.working_memory: WorkingMemory[W] = WorkingMemory(calls)
