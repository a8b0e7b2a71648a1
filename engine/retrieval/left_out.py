"""Why an answer is empty, in words: what each filter leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from jiyi.text.translatable import Translatable

#: By the filter's name, or the part of it before the dot; ``value`` is what stands behind the dot.
REASONS = {
    "types": Translatable("%(count)s of the type %(value)s (types)"),
    "kinds": Translatable("%(count)s of the kind %(value)s (kinds)"),
    "origins": Translatable("%(count)s from %(value)s (origins)"),
    "min_trust": Translatable("%(count)s trusted less than min_trust"),
    "include_superseded": Translatable("%(count)s superseded (include_superseded)"),
    "include_archived": Translatable("%(count)s archived (include_archived)"),
    "include_expired": Translatable("%(count)s expired (include_expired)"),
    "as_of": Translatable("%(count)s not known yet (as_of)"),
    "created_after": Translatable("%(count)s from before created_after"),
    "created_before": Translatable("%(count)s not from before created_before"),
    "session_id": Translatable("%(count)s of no or another session (session_id)"),
    "keywords": Translatable("%(count)s without the keywords"),
    "min_similarity": Translatable("%(count)s less similar than min_similarity"),
    "min_probability": Translatable("%(count)s less likely to answer than min_probability"),
    "idle": Translatable("%(count)s that say that something is idle"),
    "not_embedded": Translatable("%(count)s not embedded yet"),
}


def sentences(left_out: Mapping[str, int]) -> list[Translatable]:
    """One for each filter that leaves out any, those that leave out most first."""
    parts = [(name.partition("."), count) for name, count in sorted(left_out.items(), key=lambda item: -item[1])]
    return [REASONS[name].filled({"count": f"{count:,}", "value": value}) for (name, _, value), count in parts]


def told(message: str, left_out: Mapping[str, int]) -> str:
    """The message with what the filters leave out; each counts by itself, so a memory may be counted several times."""
    return f"{message}; left out: {', '.join(sentences(left_out))}" if left_out else message
