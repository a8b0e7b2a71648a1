"""``client.dead_letters``: events that were refused, and work that was given up."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.client.calls import Calls, Id, checked
from jiyi.protocol.operations import DeadLetter, DeadLetterPage, LetterRequest, LettersRequest, LetterState, ResolveBody, Resolved
from jiyi.protocol.queries import DEFAULT_PAGE


class DeadLetters:
    """Dead letters: what could not be done, kept with the reason until somebody decides."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(
        self,
        *,
        state: LetterState = "open",
        kind: str | None = None,
        words: str | None = None,
        before: Id | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> DeadLetterPage:
        """A page, newest first. ``words`` stand in the reason; ``before`` is the last page's ``next``."""
        request = checked(LettersRequest, state=state, kind=kind, words=words, before=before, limit=limit)
        return DeadLetterPage.model_validate(self._calls.ask("dead_letters.list", request))

    def get(self, letter_id: Id) -> DeadLetter:
        """One letter, with its whole message. Raises :class:`jiyi.errors.NotFound`."""
        return DeadLetter.model_validate(self._calls.ask("dead_letters.get", checked(LetterRequest, letter_id=letter_id)))

    def replay(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None) -> Resolved:
        """Try again: those named, or up to 1,000 open ones of a kind. What is still wrong comes back as new letters.

        Raises:
            NotFound: none of those named is open.
        """
        return self._resolve("replay", letter_ids, kind)

    def discard(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None) -> Resolved:
        """Give up on those named, or on up to 1,000 open ones of a kind. Raises as :meth:`replay` does."""
        return self._resolve("discard", letter_ids, kind)

    def _resolve(self, action: str, letter_ids: Sequence[Id], kind: str | None) -> Resolved:
        request = checked(ResolveBody, action=action, letter_ids=[*letter_ids], kind=kind)
        return Resolved.model_validate(self._calls.act("dead_letters.resolve", request))
