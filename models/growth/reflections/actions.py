"""What can be done and asked about an agent's look at itself."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.growth.identity import OfAgent
from jiyi.protocol.growth.reflections import ConfigureSelf, ListLooks, LookDetail, LookId, LookPage, SelfState
from jiyi.protocol.reflection import ReflectionAsked
from models.db.actions import Context, action
from models.growth.reflections import reads, rhythm
from models.memory.agents.agents import AgentName, key_of, lock_agents, no_agent
from models.reflection import reflections
from models.reflection.reflections import REFLECT


@action("reflection_get", scope="read", mutates=False)
def get_settings_of(context: Context, request: OfAgent) -> SelfState:
    """Get how often an agent looks at itself.

    Its settings, with the deployment's numbers where it has none of its own, and how far it has come.
    """
    return rhythm.state(context.connection, _there(context, request.agent_id))


@action("reflection_configure", scope="admin")
def configure(context: Context, request: ConfigureSelf) -> SelfState:
    """Configure how an agent looks at itself.

    After how many conversations and hours; whether proposals wait for somebody (they do), and whether it may propose changes of its SOUL
    (it may not). What is not given stays as it is.
    """
    name = _locked(context, request.agent_id)
    given = request.model_dump(exclude={"agent_id", "follow_deployment"}, exclude_none=True)
    if request.follow_deployment:
        given = {"conversations": None, "hours": None, **given}
    rhythm.configure(context.connection, name, given)
    context.audit(request.agent_id, **given)
    return rhythm.state(context.connection, name)


@action("reflection_due", scope="read", mutates=False)
def is_due(context: Context, request: OfAgent) -> SelfState:
    """Tell whether an agent is to look at itself.

    Why it is due now, or how many conversations have ended and when the hours are over.
    """
    return rhythm.state(context.connection, _there(context, request.agent_id))


@action("reflection_run", scope="publish")
def run(context: Context, request: OfAgent) -> ReflectionAsked:
    """Let an agent look at itself now.

    Owes a reflection that also asks what went well or wrong, what to do better, and what of its files to change. Answers at once;
    reflection_show says what came of it.
    """
    name = _locked(context, request.agent_id)
    rhythm.ask(context.connection, name)
    reflection_id = reflections.ask(context.connection, *name, "request")
    agent_key = key_of(context.connection, *name)
    assert agent_key is not None  # it is locked
    context.enqueue(REFLECT, [(agent_key, context.group_id)])
    context.audit(request.agent_id, reflection_id=reflection_id)
    return ReflectionAsked(reflection_id=reflection_id)


@action("reflection_list", scope="read", mutates=False)
def list_looks(context: Context, request: ListLooks) -> LookPage:
    """List an agent's looks at itself.

    The latest first, each with what it found.
    """
    found = reads.page(context.connection, context.group_id, request)
    more = len(found) > request.limit
    return LookPage(reflections=found[: request.limit], next=found[request.limit - 1].reflection_id if more else None)


@action("reflection_show", scope="read", mutates=False)
def show(context: Context, request: LookId) -> LookDetail:
    """Show a look at itself.

    Patterns, improvements and proposals with the turns that they rest on, and the thoughts that it left.
    """
    found = reads.detail(context.connection, context.group_id, request.reflection_id)
    if found is None:
        raise NotFound(f"reflection_id: no reflection {request.reflection_id} in the group {context.group_id!r}; see reflection_list")
    return found


def _there(context: Context, agent_id: str) -> AgentName:
    name = (context.group_id, agent_id)
    if key_of(context.connection, *name) is None:
        raise no_agent(*name)
    return name


def _locked(context: Context, agent_id: str) -> AgentName:
    name = _there(context, agent_id)
    lock_agents(context.connection, [name])
    return name
