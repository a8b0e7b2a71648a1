"""The import of drafts: batch by batch, each event once however often, and a report of what became of them.

And a check: questions with expected words, asked of both sides, say whether what is looked for is found as
well as before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import IO, Annotated
from uuid import UUID

from pydantic import BaseModel, Field, ValidationError

from jiyi.client.client import Client, chunks
from jiyi.client.write_methods import STATES_A_CALL
from jiyi.errors import InvalidRequest, problems_of
from jiyi.imports.drafts import Draft, Drafts, ImportTarget, LeftOut
from jiyi.imports.files import lines
from jiyi.protocol.base import Name
from jiyi.protocol.conversations import KINDS
from jiyi.protocol.erasure import MAX_NODES
from jiyi.protocol.event_bodies import content_of, digest, digests_of
from jiyi.protocol.events import Event
from jiyi.text.words import storable

#: Of what is left out so many are reported one by one.
MAX_EXAMPLES = 50


class LeftOutItem(BaseModel):
    """Something that was left out."""

    where: str
    reason: str
    detail: str = ""


class Report(BaseModel):
    """What became of a source's memories and turns: each is ``taken``, ``already`` there, or ``left_out``."""

    source: str
    taken: int = 0
    already: int = 0
    left_out: int = 0
    reasons: dict[str, int] = Field({}, description="How many were left out for which reason.")
    examples: list[LeftOutItem] = Field([], description="The first ones that were left out.")
    split: int = Field(
        0, description="Of those taken: texts that became several memories, because they were long."
    )
    without_user: int = Field(
        0, description="Of those taken or there already: an import without --user left them to others, too."
    )
    agents: list[str] = []
    complete: bool = Field(False, description="False: it ended early; run it again, and it goes on.")
    problem: str = Field("", description="Why it ended early.")
    retrievable: bool = Field(False, description="Whether all that was taken can be found by now.")

    def leave_out(self, what: LeftOut) -> None:
        self.left_out += 1
        self.reasons[what.reason] = self.reasons.get(what.reason, 0) + 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(
                LeftOutItem(where=storable(what.where), reason=what.reason, detail=storable(what.detail))
            )


class ImportRun:
    """One run: a client, where the drafts go, and what has become of them so far.

    ``drop_earlier``: what an earlier run imported is erased where this one does so no longer, as its branch
    is not the one that is shown any more, or ``user`` is another now; else it stays.
    """

    def __init__(
        self,
        client: Client,
        target: ImportTarget,
        on_progress: Callable[[int], None] = lambda _count: None,
        *,
        drop_earlier: bool = False,
    ) -> None:
        self.report, self.ids = Report(source=target.source), list[UUID]()
        self._client, self._target, self._on_progress = client, target, on_progress
        self._drop_earlier = drop_earlier
        # Ids under which an earlier run may have stored a draft, and why it is left out now; None: it is not,
        # but another user's.
        self._earlier: list[tuple[list[UUID], LeftOut | None]] = []

    def run(self, drafts: Drafts) -> Report:
        """Publish every draft that is not there yet. What was published stays so, whatever is raised."""
        batch: list[list[Event]] = []
        size = 0
        for draft in drafts:
            built = self._target.events(draft) if isinstance(draft, Draft) else draft
            if isinstance(built, LeftOut):
                self._leave_out(built)
                continue
            if size + len(built) > STATES_A_CALL or len(self._earlier) > STATES_A_CALL:
                self.publish(batch)
                self._look_at_earlier()  # only now: nothing is erased before it is stored for its user
                batch, size = [], 0
            batch.append(built)
            size += len(built)
            if isinstance(draft, Draft) and (ids := self._target.ids_without_user(draft)):
                self._earlier.append((ids, None))
        self.publish(batch)
        self._look_at_earlier()
        self.report.complete = True
        return self.report

    def _leave_out(self, what: LeftOut) -> None:
        built = what.draft and self._target.events(what.draft)
        if not built or isinstance(built, LeftOut):
            self.report.leave_out(what)
        else:
            self._earlier.append(([event.event_id for event in built], what))

    def _look_at_earlier(self) -> None:
        """Say, and erase if wanted, what an earlier run imported that this one does not, or for another."""
        existing: set[UUID] = set()
        for page in chunks([event_id for ids, _ in self._earlier for event_id in ids], STATES_A_CALL):
            states = self._client.events.states(ids=page).rows
            stored_states = ("stored", "retrievable", "duplicate")
            existing |= {state.event_id for state in states if state.state in stored_states}
        for ids, what in self._earlier:
            exists = not existing.isdisjoint(ids)
            if what is None:
                self.report.without_user += exists
            elif exists:
                still = "it is still there: --drop-earlier erases it"
                outcome = "it is being erased" if self._drop_earlier else still
                detail = f"imported before, and not of the branch that is shown now; {outcome}"
                self.report.leave_out(LeftOut(what.where, "earlier branch", detail))
            else:
                self.report.leave_out(what)
        if self._drop_earlier:
            for page in chunks(list(existing), MAX_NODES):
                self._client.erasure.request(node_ids=page)
        self._earlier.clear()

    def publish(self, batch: list[list[Event]]) -> None:
        """The events of some drafts: those that are not there, in one message or a few."""
        digests = digests_of(event for events in batch for event in events)
        states: dict[UUID, str] = {}
        for page in chunks(list(digests), STATES_A_CALL):
            rows = self._client.events.states(ids=page, digests={one: digests[one] for one in page}).rows
            states |= {state.event_id: state.state for state in rows}
        new: dict[UUID, Event] = {}
        imported = split = 0
        for events in batch:
            if any(digest(content_of(event)) != digests[event.event_id] for event in events):
                states |= {events[0].event_id: "id_reused"}  # twice in this batch, with other words
            outcomes = {states.get(event.event_id, "unknown") for event in events}
            where = str(events[0].event_id)
            if "id_reused" in outcomes:
                why = "it was imported before with other words"
                self.report.leave_out(LeftOut(where, "changed since", why))
            elif outcomes == {"erased"}:
                self.report.leave_out(LeftOut(where, "erased", "somebody has erased it here"))
            elif "unknown" in outcomes and events[0].event_id not in new:
                new |= {event.event_id: event for event in events}
                imported, split = imported + 1, split + (len(events) > 1)
            else:
                self.report.already += 1
        if new:
            self._client.observe_many(list(new.values()))
        self.report.taken, self.report.split = self.report.taken + imported, self.report.split + split
        self.report.agents = sorted({*self.report.agents, *(event.agent_id for event in new.values())})
        self.ids += new
        self._on_progress(len(batch))


#: Questions of one check, and memories that count for each.
MAX_QUESTIONS, FOUND = 2_000, 10
#: The search of the other side: question, user, how many → texts.
Search = Callable[[str, str | None, int], list[str]]


class CheckQuestion(BaseModel, extra="forbid"):
    """A line of the file: a question, and words of which one must be among what is found."""

    question: Annotated[str, Field(min_length=1, max_length=8_000)]
    expected: (
        Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
        | Annotated[str, Field(min_length=1)]
    )
    agent_id: Name | None = None
    user_id: Name | None = None

    @property
    def words(self) -> list[str]:
        """All of its expected words."""
        return [self.expected] if isinstance(self.expected, str) else self.expected


class Compared(BaseModel):
    """Shares of questions answered among the first memories; ``theirs`` None: the source has no search."""

    questions: int
    among_first: int
    ours: float
    theirs: float | None
    missed: list[str] = Field(
        description="Questions that only the other side answers; without one, those not answered here."
    )


def read_questions(stream: IO[bytes], name: str) -> list[CheckQuestion]:
    """The questions of a file of JSON lines. Raises :class:`InvalidRequest` for a line that is none."""
    questions: list[CheckQuestion] = []
    for number, value in lines(stream, name):
        try:
            questions.append(CheckQuestion.model_validate({} if isinstance(value, LeftOut) else value))
        except ValidationError as error:
            problem = value.detail if isinstance(value, LeftOut) else problems_of(error, CheckQuestion)[0]
            example = '{"question": "What does Mia eat?", "expected": "noodles"}'
            raise InvalidRequest([f"{name}: line {number}: {problem}; a line is {example}"]) from None
        if len(questions) > MAX_QUESTIONS:
            raise InvalidRequest([f"{name}: more than {MAX_QUESTIONS:,} questions; give fewer"])
    if not questions:
        raise InvalidRequest([f"{name}: has no questions"])
    return questions


def compare(
    client: Client, questions: Sequence[CheckQuestion], agent: str, user: str | None, theirs: Search | None
) -> Compared:
    """Ask both sides every question. What is found does not count as accessed."""
    ours_found = theirs_found = 0
    missed: list[str] = []
    for question in questions:
        who = question.user_id or user
        answer = client.retrieve(
            question.agent_id or agent,
            question.question,
            user_id=who,
            top_k=FOUND,
            touch=False,
            filters={"kinds": ["memory", *KINDS]},
        )
        here = _among(question, [node.description for node in answer.retrieved_nodes])
        there = theirs is not None and _among(question, theirs(question.question, who, FOUND))
        ours_found, theirs_found = ours_found + here, theirs_found + there
        if not here and (there or theirs is None):
            missed.append(question.question)
    count = len(questions)
    return Compared(
        questions=count,
        among_first=FOUND,
        ours=round(ours_found / count, 4),
        theirs=None if theirs is None else round(theirs_found / count, 4),
        missed=missed[:50],
    )


def _among(question: CheckQuestion, texts: Sequence[str]) -> bool:
    plain_texts = [_plain(text) for text in texts]
    return any(_plain(word) in text for word in question.words for text in plain_texts)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
