"""What was found, in words for an agent (DA-14, DA-17, K-26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.stores.ranking import Ranked
from jiyi.text.budget import cut_to_tokens, estimate_tokens

#: Before and after what was found. The seed's label; the original's is English.
LABEL, END = "===== 相关记忆 =====", "===== End of Memory ====="
#: Tokens of the whole, at most (design §13).
BUDGET = 2_000
#: Fewer tokens of an item say nothing.
LEAST_TOKENS = 12


def rendered(ranked: Sequence[Ranked], *, label: str = LABEL, max_tokens: int | None = BUDGET) -> tuple[str, list[Ranked]]:
    """The text, and what is in it; by stores, the one with the best item first. Empty if there is nothing (DA-16).

    Lines of an item after its first are indented: none can pass for the end of the memory, or for another store's heading.
    """
    room = None if max_tokens is None else max_tokens - estimate_tokens(f"{label}\n{END}")
    taken: list[tuple[Ranked, str]] = []
    headed: set[str] = set()
    for one in ranked:
        said = one.hit.item.content_summary.strip()
        if not said:
            continue
        if room is not None:
            heading = 0 if one.store in headed else estimate_tokens(f"--- {one.store} ---")
            left = room - heading - 2  # its number
            if left < LEAST_TOKENS:
                break
            said = cut_to_tokens(said, left)
            room = left - estimate_tokens(said)
        headed.add(one.store)
        taken.append((one, "\n   ".join(said.splitlines())))
    if not taken:
        return "", []
    lines = [label]
    for store in dict.fromkeys(one.store for one, _ in taken):
        lines.append(f"\n--- {store} ---")
        texts = [said for one, said in taken if one.store == store]
        lines += [f"{number}. {said}" for number, said in enumerate(texts, 1)]
    return "\n".join([*lines, "", END]), [one for one, _ in taken]


def into_prompt(memory: str | None, message: str) -> str:
    """A prompt's last message with what was found before it; unchanged if nothing was (DA-17)."""
    return message if memory is None else f"{memory}\n\n{message}"


def into_messages(memory: str | None, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with one of the user's more, before the last of the user's; unchanged if nothing was found (DA-17)."""
    found = [dict(message) for message in messages]
    if memory is None:
        return found
    place = next((number for number in reversed(range(len(found))) if found[number].get("role") == "user"), len(found))
    return [*found[:place], {"role": "user", "content": memory}, *found[place:]]
