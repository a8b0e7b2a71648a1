"""What can be done with skills: read, confirm, decline, enable, disable, archive, delete (ZC-66…ZC-70)."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.growth.artifacts import ArtifactId, ArtifactRows, ArtifactsQuery, ArtifactState, Deciding
from models.db.actions import Context, action
from models.growth.artifacts import deciding, reads


@action("skill_list", scope="read", mutates=False)
def list_skills(context: Context, request: ArtifactsQuery) -> ArtifactRows:
    """List skills.

    Newest first, page by page, from candidates that the gate refused to those in use; with their trust.
    """
    rows = reads.artifacts(context.connection, context.group_id, "skill", **request.model_dump())
    return ArtifactRows(rows=rows, next=rows[-1].id if len(rows) == request.limit else None)


@action("skill_get", scope="read", mutates=False)
def get(context: Context, request: ArtifactId) -> ArtifactState:
    """Get one skill.

    Its text, what it rests on, what the gate found, who decided about it, and how far it is trusted.
    """
    found = reads.artifact(context.connection, context.group_id, "skill", request.id)
    if found is None:
        raise NotFound(f"id: no skill {request.id} in the group {context.group_id!r}")
    return found


@action("skill_accept", scope="admin")
def accept(context: Context, request: Deciding) -> ArtifactState:
    """Confirm a candidate.

    It is registered from now on, and still disabled. Refused for what is not pending: who comes second is told who came first.
    """
    return deciding.decide(context, "skill", request.id, deciding.ACCEPT, request.reason)


@action("skill_decline", scope="admin")
def decline(context: Context, request: Deciding) -> ArtifactState:
    """Decline a candidate.

    It comes back when its evidence has doubled.
    """
    return deciding.decide(context, "skill", request.id, deciding.DECLINE, request.reason)


@action("skill_enable", scope="admin")
def enable(context: Context, request: ArtifactId) -> ArtifactState:
    """Enable a skill.

    Only one that was confirmed; agents' programs may use it from now on.
    """
    return deciding.decide(context, "skill", request.id, deciding.ENABLE)


@action("skill_disable", scope="admin")
def disable(context: Context, request: ArtifactId) -> ArtifactState:
    """Disable a skill.

    It stays registered, and can be enabled again.
    """
    return deciding.decide(context, "skill", request.id, deciding.DISABLE)


@action("skill_archive", scope="admin")
def archive(context: Context, request: Deciding) -> ArtifactState:
    """Archive a skill.

    One that was confirmed goes out of use for good; it stays to be read.
    """
    return deciding.decide(context, "skill", request.id, deciding.ARCHIVE, request.reason)


@action("skill_delete", scope="admin")
def delete(context: Context, request: ArtifactId) -> ArtifactState:
    """Delete a skill.

    Its texts, its votes and its trust go; it comes back when its evidence has doubled.
    """
    return deciding.decide(context, "skill", request.id, deciding.DELETE)
