"""What each group's quarantine was about: weekly, and on request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from engine.operations import DIGEST_HOURS
from engine.providers.llms import LLM, ForGroup, llm
from engine.providers.questions import Digest as Question
from engine.rules.provider import Rules
from engine.tiers.quarantine import Cluster, Digest, digest
from jiyi.errors import JiyiError
from jiyi.protocol.knowledge import DigestBody, DigestState
from jiyi.text.words import language_of
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import actions, digests
from models.tiers.digests import ClusterSummary
from tasks.framework.jobs import Run, job
from tasks.framework.rpc import implements
from tasks.framework.work import TRANSIENT_ERRORS

#: Statements of a cluster that the LLM is shown, and characters of each.
MAX_STATEMENTS, MAX_CHARS = 20, 1_000
#: A digest counts as this week's if it is younger than this share of the interval.
YOUNG = 0.5


@job("digest")
def digest_quarantine(run: Run) -> None:
    """Digest what came into each group's quarantine, for those who promote.

    Safe to repeat because a group that has a digest of this week is passed over.
    """
    every = timedelta(hours=DIGEST_HOURS)
    since, young = run.now - every, run.now - every * YOUNG
    after = str(run.place) if isinstance(run.place, str) else ""
    while True:
        with run.transaction() as connection:
            groups = digests.groups(connection, since, young, after, run.group_id)
        for group_id in groups:
            if run.dry:
                with run.transaction() as connection:
                    run.count(groups=1, entries=digests.entries(connection, group_id, since, run.now)[1])
            else:
                with for_groups(group_id):
                    _, items = make(group_id, since, run.now, run.actor)
                run.count(groups=1, items=items)
            after = group_id
            if run.time_is_up():
                run.summary["more"] = after
                return
        if not groups:
            return


def make(group_id: str, since: datetime, until: datetime, actor: str) -> tuple[UUID, int]:
    """Digest a span of time; the digest's id, and how many clusters it has. In the scope of the group."""
    with unit_of_work() as connection:
        entries, count = digests.entries(connection, group_id, since, until)
    clusters = digest(entries)
    summed = _summed(group_id, clusters)
    with unit_of_work() as connection:
        digest_id = digests.store(connection, group_id, since, until, count, clusters, summed, actor)
    actions.digested(group_id, digest_id, len(summed))
    return digest_id, len(summed)


def _summed(group_id: str, made: Digest) -> list[ClusterSummary]:
    """Each cluster in words: the LLM's; of those that it gave none for, the rules'."""
    provider: LLM = llm()
    summed = []
    for cluster in made.clusters:
        try:
            summed.append(_ask(provider, group_id, cluster))
        except TRANSIENT_ERRORS:
            provider = Rules()  # away for one is away for the rest
            summed.append(_ask(provider, group_id, cluster))
        except JiyiError:
            summed.append(_ask(Rules(), group_id, cluster))
    return summed


def _ask(provider: LLM, group_id: str, cluster: Cluster) -> ClusterSummary:
    shown = cluster.entries[:MAX_STATEMENTS]
    question = Question(agent_id=group_id, language=language_of(shown[0].text), statements=[entry.text[:MAX_CHARS] for entry in shown])
    answer = ForGroup(provider, group_id).ask(question)
    evidence = [UUID(shown[number].entry_id) for number in sorted(set(answer.evidence))]
    return ClusterSummary(cluster, answer.topic, answer.summary, evidence, provider.model)


@implements(actions.make_digest)
def make_now(actor: Actor, request: DigestBody) -> DigestState:
    """Safe to repeat because every digest stands by itself."""
    until = datetime.now(UTC)
    digest_id, _ = make(actor.group_id, until - timedelta(days=request.days), until, actor.name)
    with unit_of_work() as connection:
        return digests.listed(connection, actor.group_id, digest_id)[0]
