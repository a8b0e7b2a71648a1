"""``client.jobs``, ``dead_letters``, ``embeddings``, ``service`` and ``erasure``: the running service, and erasing what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack
from uuid import UUID

from jiyi.client.calls import Id, Namespace, W
from jiyi.client.steps import Steps, polled, verb
from jiyi.protocol import operations as protocol
from jiyi.protocol.base import DEFAULT_PAGE, Count, Rows
from jiyi.protocol.erasure import ErasurePreview, ErasureRequested, ErasureState
from jiyi.protocol.providers import DEFAULT_BATCH, STEP_SECONDS, EmbedderReport, ForgottenLLM, LLMReport, MoveState

#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0
States = list[protocol.JobState]


class Jobs(Namespace[W]):
    """Scheduled jobs. They are the whole service's, whatever the group."""

    @verb
    def list(self) -> Steps[States]:
        """Every job with its last run and its next one."""
        page: Rows[protocol.JobState] = yield from self._call("jobs.list")
        return page.rows

    @verb
    def run(self, job: str, *, whole_service: bool = True, timeout: float = JOB_SECONDS) -> Steps[protocol.Tick]:
        """Run a scheduled job now and wait for its end.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        begun: protocol.Tick = yield from self._call("jobs.run", job=job, whole_service=whole_service)

        def look() -> Steps[protocol.Tick]:
            tick: protocol.Tick | None = yield from self._call("jobs.tick", job=job, slot=begun.slot)
            return tick or begun

        late = f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi jobs`"
        return (yield from polled(look, lambda tick: tick.ended, timeout, lambda _: late))


class DeadLetters(Namespace[W]):
    """Dead letters: what could not be done, kept with the reason until somebody decides."""

    @verb
    def list(
        self,
        *,
        state: protocol.LetterState = "open",
        kind: str | None = None,
        words: str | None = None,
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Steps[Rows[protocol.DeadLetter]]:
        """A page, newest first. ``words`` stand in the reason; ``cursor`` is the last page's ``next``."""
        return self._call("dead_letters.list", state=state, kind=kind, words=words, cursor=cursor, limit=limit)

    @verb
    def get(self, letter_id: Id) -> Steps[protocol.DeadLetter]:
        """One letter, with its whole message. Raises :class:`jiyi.errors.NotFound`."""
        return self._call("dead_letters.get", id=letter_id)

    @verb
    def replay(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None, body: str | None = None) -> Steps[protocol.Resolved]:
        """Try again: those named, or up to 1,000 open ones of a kind. What is still wrong comes back as new letters.

        ``body``: the message of the one letter that is named, as it should have come.

        Raises:
            NotFound: none of those named is open.
        """
        return self._resolve("replay", letter_ids, kind, body)

    @verb
    def discard(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None) -> Steps[protocol.Resolved]:
        """Give up on those named, or on up to 1,000 open ones of a kind. Raises as :meth:`replay` does."""
        return self._resolve("discard", letter_ids, kind)

    def _resolve(self, action: str, letter_ids: Sequence[Id], kind: str | None, body: str | None = None) -> Steps[protocol.Resolved]:
        return self._call("dead_letters.resolve", action=action, letter_ids=[*letter_ids], kind=kind, body=body)


class Service(Namespace[W]):
    """The service's counts, its LLM, its pending work."""

    @verb
    def stats(self) -> Steps[protocol.ServiceStats]:
        """Counts of the group; pending work, counters and agent indexes of the whole service."""
        return self._call("stats.show")

    @verb
    def llms(self, days: int = 30) -> Steps[LLMReport]:
        """The LLM in use, the vendors there are, and what the group has used in the last ``days``."""
        return self._call("llms.show", days=days)

    @verb
    def forget_llm(self) -> Steps[ForgottenLLM]:
        """Have the LLM in use asked again what it can do, before its next question."""
        return self._call("llms.forget")

    @verb
    def retry(self, kind: str, subject_ids: Sequence[Id] = (), *, all_groups: bool = False) -> Steps[int]:
        """Make pending work of a kind due now: of the subjects named, or up to 10,000 of them. Returns how many."""
        done: Count = yield from self._call("pending_work.retry", kind=kind, subject_ids=list(subject_ids), all_groups=all_groups)
        return done.count


class Embeddings(Namespace[W]):
    """The deployment's embedding models."""

    @verb
    def show(self) -> Steps[EmbedderReport]:
        """Which embedders there are, which is in use, and how many memories each model has embedded."""
        return self._call("embedders.show")

    @verb
    def move(
        self,
        to: str | None = None,
        *,
        batch: int = DEFAULT_BATCH,
        everything: bool = False,
        count: bool = False,
        cancel: bool = False,
        timeout: float = STEP_SECONDS,
    ) -> Steps[MoveState]:
        """One step of moving the deployment to another embedding model (:class:`jiyi.protocol.providers.ReembeddingStep`).

        Repeat it until its ``phase`` is ``done``.

        Raises:
            EmbeddingUnavailable, TextRefused: the new model's provider; the step may be repeated.
        """
        return self._call("reembedding.step", timeout, to=to, batch=batch, everything=everything, count=count, cancel=cancel)


#: Seconds for a preview, which looks through everything.
PREVIEW_SECONDS = 60.0


class What(TypedDict, total=False):
    """Of :class:`jiyi.protocol.erasure.Erasure`: whom or what it is about."""

    agent_id: str
    person: str
    #: Other names of the person: short forms, other spellings, other scripts.
    aliases: Sequence[str]
    node_ids: Sequence[Id]


class Erasure(Namespace[W]):
    """Erasures of the group: of an agent, or of a person by all of their names, or of single memories."""

    @verb
    def preview(self, **what: Unpack[What]) -> Steps[ErasurePreview]:
        """What an erasure would take along. Changes nothing."""
        return self._call("erasure.preview", PREVIEW_SECONDS, **what)

    @verb
    def request(self, *, delete_backups: bool = False, **what: Unpack[What]) -> Steps[UUID]:
        """Have it erased, with everything derived from it, for good; returns the erasure's id at once.

        Args:
            delete_backups: delete the backups of before, and make a new one.
            what: an agent, a person or memories, one of them.

        Raises:
            InvalidRequest: with a sentence per wrong field.
            NotFound: there is no such agent, or none of the memories.
        """
        done: ErasureRequested = yield from self._call("erasure.request", **what, delete_backups=delete_backups)
        return done.erasure_id

    @verb
    def get(self, erasure_id: Id) -> Steps[ErasureState]:
        """How far an erasure is, and its report when it is done."""
        return self._one(erasure_id)

    @verb
    def wait_for(self, erasure_id: Id, timeout: float) -> Steps[ErasureState]:
        """The erasure when it is done. Raises :class:`NoAnswer` after ``timeout`` seconds; it goes on by itself."""
        return polled(
            lambda: self._one(erasure_id),
            lambda found: found.state == "done",
            timeout,
            lambda found: f"the erasure {erasure_id} is {found.state}, at {found.step!r}, after {timeout:g} s; it goes on",
        )

    @verb
    def list(self, *, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Steps[Rows[ErasureState]]:
        """A page of erasures, newest first; ``cursor`` is the ``next`` of the page before. Of names only hashes are kept."""
        return self._call("erasure.list", cursor=cursor, limit=limit)

    def _one(self, erasure_id: Id) -> Steps[ErasureState]:
        return self._call("erasure.get", id=erasure_id)
