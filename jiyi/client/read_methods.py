"""The verbs that ask: what matters now, what belongs into a prompt, one memory and all of them; and those
that correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack
from uuid import UUID

from jiyi.client.arguments import (
    ListArguments,
    MemoryArguments,
    RecallArguments,
    RetrievalArguments,
    UpdateArguments,
)
from jiyi.client.calls import Id, W, checked
from jiyi.client.steps import PageFetcher, Steps, polled, rows, verb
from jiyi.client.write_methods import WriteMethods
from jiyi.errors import InvalidRequest, unknown
from jiyi.protocol.actions import ALIASES, TABLE, name_of
from jiyi.protocol.base import Made
from jiyi.protocol.erasure import ErasureState
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import ListMemories, RecalledContext, Updated
from jiyi.protocol.reflection import ReflectionState
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.tier_questions import MemoryAnswer, MemoryQuery


class ReadMethods(WriteMethods[W]):
    """What is remembered, and why; and any action by its name."""

    @verb
    def command(self, name: str, /, timeout: float | None = None, **fields: Any) -> Steps[Any]:
        """The result of any action by its name or an alias, such as ``command("heartbeats.status",
        agent_id="companion")``.

        Raises:
            InvalidRequest: there is no such action, or with a sentence per wrong field.
        """
        declared = TABLE.get(name_of(name))
        if declared is None:
            raise InvalidRequest([f"name: {unknown(name, [*TABLE, *ALIASES], 'action')}"])
        return self._call(declared.name, timeout, **fields)

    @verb
    def retrieve(
        self,
        agent_id: str,
        focal: str | Sequence[str] = (),
        *,
        timeout: float | None = None,
        **options: Unpack[RetrievalArguments],
    ) -> Steps[Answer]:
        """The agent's memories that matter most for the focal text or texts, with every component of their
        scores.

        Instead of texts a dialogue may be given: ``messages=[{"role": "user", "content": "…"}, …]``, in its
        order.

        Raises:
            InvalidRequest: with a sentence per wrong field.
            BrokerUnavailable, NoAnswer: the service cannot be reached, or did not answer in time.
            ModelMismatch: the vectors brought along cannot be compared with the agent's.
        """
        texts = [focal] if isinstance(focal, str) else list(focal)
        options.setdefault("tz", self._tz)
        request = checked(RetrievalRequest, group_id=self._group, agent_id=agent_id, queries=texts, **options)
        return self._answer("retrieval.retrieve", self._queue(agent_id), request, Answer, timeout)

    @verb
    def context(
        self, agent_id: str, query: str, *, timeout: float | None = None, **options: Unpack[RecallArguments]
    ) -> Steps[RecalledContext]:
        """The text to put into a prompt: the agent's memories that matter most for the query, a dated line
        each, within a budget.

        Raises as :meth:`retrieve` does. A prompt of the group's tiers is ``client.knowledge.context``; what
        only conversations told, in sections, is ``client.conversations.context``.
        """
        return self._call("memory.context", timeout, agent_id=agent_id, query=query, **options)

    @verb
    def get(self, node_id: Id, *, user_id: str | None = None, timeout: float | None = None) -> Steps[Memory]:
        """One memory with everything but its vector, if the user may see it. Raises :class:`NotFound`."""
        return self._call("memory.get", timeout, id=node_id, user_id=user_id)

    @rows
    def list(
        self,
        agent_id: str | None = None,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
        **filters: Unpack[ListArguments],
    ) -> PageFetcher[Memory]:
        """Memories, newest first, one after another; pages are fetched as they are needed.

        Args:
            agent_id: whose; the whole group's unless given.
            page_size: memories that are fetched at once.
            timeout: seconds for a page.
            filters: all that are given must hold.
        """
        given: dict[str, Any] = {
            "agent_id": agent_id,
            **filters,
            **({} if page_size is None else {"limit": page_size}),
        }
        checked(ListMemories, **given)  # what is wrong is said now, not with the first page
        return lambda cursor: self._call("memory.list", timeout, **given, cursor=cursor)

    @verb
    def update(
        self,
        node_id: Id,
        description: str | None = None,
        *,
        importance: float | None = None,
        wait: bool = False,
        timeout: float | None = None,
        **fields: Unpack[UpdateArguments],
    ) -> Steps[UUID]:
        """Correct a memory; returns the id of its new version, which is found instead of it from now on.

        The older version stays, with the date at which it ended: ``get`` has it, ``list`` and ``retrieve``
        with ``superseded``. What is not given stays as it was.

        Args:
            node_id: the memory's version in force.
            description: what is so instead.
            importance: another name of ``poignancy``.
            wait: return only when the new version is retrievable.
            timeout: seconds for the answer, and for ``wait``.
            fields: ``keywords``, ``occurred_at`` (since when it is so), ``event_id`` (the id of the new
            version), ``expires_at`` …

        Raises:
            InvalidRequest: with a sentence per wrong field; or it is no longer in force, or was said in a
            conversation.
            NotFound: there is no such memory.
        """
        given: dict[str, Any] = {"id": node_id, **fields}
        given |= {
            name: value
            for name, value in (("description", description), ("importance", importance))
            if value is not None
        }
        done: Updated = yield from self._call("memory.update", timeout, **given)
        if wait:
            yield from self._wait_for([done.node_id], {}, timeout)
        return done.node_id

    @verb
    def delete(self, node_id: Id, *, timeout: float | None = None) -> Steps[UUID]:
        """Erase one memory for good, with all that was derived from it and its words in what was said;
        returns the erasure's id at once.

        ``client.erasure.wait_for`` waits for it, and gives the report that proves it. Older versions are
        memories of their own.

        Raises:
            NotFound: there is no such memory.
        """
        done: ErasureState = yield from self._call("erasure.request", timeout, node_ids=[node_id])
        return done.erasure_id

    @verb
    def reflect(
        self, agent_id: str, *, wait: bool = True, timeout: float | None = None
    ) -> Steps[ReflectionState]:
        """Let an agent reflect on its latest memories, now; its thoughts, each with its evidence.

        Args:
            agent_id: who is to reflect.
            wait: return only when it is done; else at once, with a reflection that is owed.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.

        Raises:
            NotFound: no such agent.
            NoAnswer: (``wait``) it is not done within the time given; it goes on.
        """
        asked: Made = yield from self._call("reflection.request", agent_id=agent_id)
        limit = self._wait(timeout)

        def late(found: ReflectionState) -> str:
            why = f": {found.error}" if found.error else ""
            return f"the reflection {found.reflection_id} is {found.state} after {limit:g} s{why}; it goes on"

        def look() -> Steps[ReflectionState]:
            return self._call("reflection.get", id=asked.id)

        return (yield from polled(look, lambda found: found.final or not wait, limit, late))

    @verb
    def query_memory(
        self,
        query: str,
        *,
        group_id: str | None = None,
        timeout: float | None = None,
        **options: Unpack[MemoryArguments],
    ) -> Steps[MemoryAnswer]:
        """What working and long-term memory of the group know about a text, with the state of each tier.

        Raises as :meth:`retrieve` does, and:

        Raises:
            TooManyQuestions: the group asks more often than it may.
        """
        group = group_id or self._group
        request = checked(MemoryQuery, group_id=group, query=query, **options)
        return self._answer("retrieval.memory", self._queue("", group), request, MemoryAnswer, timeout)
