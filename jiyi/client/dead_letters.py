"""``client.dead_letters``: events that were refused, and work that was given up."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.operations import DeadLetter, DeadLetterPage, LetterRequest, LettersRequest, LetterState, ResolveBody, Resolved
from jiyi.protocol.queries import DEFAULT_PAGE


class DeadLetters(Namespace[W]):
    """Dead letters: what could not be done, kept with the reason until somebody decides."""

    @verb
    def list(
        self,
        *,
        state: LetterState = "open",
        kind: str | None = None,
        words: str | None = None,
        before: Id | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Steps[DeadLetterPage]:
        """A page, newest first. ``words`` stand in the reason; ``before`` is the last page's ``next``."""
        request = checked(LettersRequest, state=state, kind=kind, words=words, before=before, limit=limit)
        return self._ask("dead_letters.list", request, DeadLetterPage)

    @verb
    def get(self, letter_id: Id) -> Steps[DeadLetter]:
        """One letter, with its whole message. Raises :class:`jiyi.errors.NotFound`."""
        return self._ask("dead_letters.get", checked(LetterRequest, letter_id=letter_id), DeadLetter)

    @verb
    def replay(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None) -> Steps[Resolved]:
        """Try again: those named, or up to 1,000 open ones of a kind. What is still wrong comes back as new letters.

        Raises:
            NotFound: none of those named is open.
        """
        return self._resolve("replay", letter_ids, kind)

    @verb
    def discard(self, letter_ids: Sequence[Id] = (), *, kind: str | None = None) -> Steps[Resolved]:
        """Give up on those named, or on up to 1,000 open ones of a kind. Raises as :meth:`replay` does."""
        return self._resolve("discard", letter_ids, kind)

    def _resolve(self, action: str, letter_ids: Sequence[Id], kind: str | None) -> Steps[Resolved]:
        request = checked(ResolveBody, action=action, letter_ids=[*letter_ids], kind=kind)
        return self._act("dead_letters.resolve", request, Resolved)
