"""Actions that skills and workflows have alike: each is said once, and made for either kind under a name of its own."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.growth.artifacts import ArtifactId, ArtifactRows, ArtifactsQuery, ArtifactState, Deciding
from jiyi.protocol.growth.evolution import EvolutionKind
from jiyi.protocol.growth.skill_types import ArtifactKind
from models.db.actions import Action, Context, action
from models.growth.artifacts import deciding, reads
from models.growth.artifacts.deciding import Decision

#: What people call each kind.
NOUNS: dict[ArtifactKind, str] = {"skill": "skill", "pipeline": "workflow"}
DOCS: dict[EvolutionKind, str] = {
    "accepted": """Confirm a candidate.

    It is registered from now on, and still disabled. Refused for what is not pending: who comes second is told who came first.""",
    "declined": """Decline a candidate.

    It comes back when its evidence has doubled.""",
    "enabled": """Enable a {noun}.

    Only one that was confirmed; agents' programs may use it from now on.""",
    "disabled": """Disable a {noun}.

    It stays registered, and can be enabled again.""",
    "archived": """Archive a {noun}.

    One that was confirmed goes out of use for good; it stays to be read.""",
    "deleted": """Delete a {noun}.

    Its texts, its votes and its trust go; it comes back when its evidence has doubled.""",
}


def listing(name: str, kind: ArtifactKind) -> Action[ArtifactsQuery, ArtifactRows]:
    doc = f"""List {NOUNS[kind]}s.

    Newest first, page by page, from candidates that the gate refused to those in use; with their trust."""

    @action(name, doc=doc)
    def list_artifacts(context: Context, request: ArtifactsQuery) -> ArtifactRows:
        rows = reads.artifacts(context.connection, context.group_id, kind, **request.model_dump())
        return ArtifactRows(rows=rows, next=rows[-1].id if len(rows) == request.limit else None)

    return list_artifacts


def getting(name: str, kind: ArtifactKind) -> Action[ArtifactId, ArtifactState]:
    doc = f"""Get one {NOUNS[kind]}.

    Its text, what it rests on, what the gate found, who decided about it, and how far it is trusted."""

    @action(name, doc=doc)
    def get(context: Context, request: ArtifactId) -> ArtifactState:
        found = reads.artifact(context.connection, context.group_id, kind, request.id)
        if found is None:
            raise NotFound(f"id: no {NOUNS[kind]} {request.id} in the group {context.group_id!r}")
        return found

    return get


def decision(name: str, kind: ArtifactKind, what: Decision) -> Action[ArtifactId, ArtifactState]:
    """A decision for which nobody asks why."""

    @action(name, doc=_doc(what, kind))
    def decide(context: Context, request: ArtifactId) -> ArtifactState:
        return deciding.decide(context, kind, request.id, what)

    return decide


def reasoned_decision(name: str, kind: ArtifactKind, what: Decision) -> Action[Deciding, ArtifactState]:
    """A decision that may give its reason."""

    @action(name, doc=_doc(what, kind))
    def decide(context: Context, request: Deciding) -> ArtifactState:
        return deciding.decide(context, kind, request.id, what, request.reason)

    return decide


def _doc(what: Decision, kind: ArtifactKind) -> str:
    return DOCS[what.kind].format(noun=NOUNS[kind])
