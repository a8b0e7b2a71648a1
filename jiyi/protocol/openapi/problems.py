"""Problem details (RFC 9457): which status an error has, what each status means, and which field a sentence is about."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jiyi.protocol.rest import FieldProblem

MEDIA_TYPE = "application/problem+json"
#: The API's statuses of a :class:`JiyiError`, by its code; a code that is not here is a failure of ours.
STATUSES: Mapping[str, int] = {
    "invalid_event": 422,
    "invalid_request": 422,
    "model_mismatch": 422,
    "event_rejected": 422,
    "id_reused": 409,
    "text_refused": 422,
    "not_found": 404,
    "switched_off": 404,
    "conflict": 409,
    "not_allowed": 403,
    "too_many_questions": 429,
    "broker_unavailable": 503,
    "database_unavailable": 503,
    "provider_unavailable": 503,
    "embedding_unavailable": 503,
    "llm_unavailable": 503,
    "no_answer": 504,
}
TITLES: Mapping[int, str] = {
    400: "Not readable",
    401: "No valid key",
    403: "Not allowed with this key",
    404: "Not found",
    405: "Wrong method",
    409: "In conflict with what is there",
    413: "Too large",
    415: "Not JSON",
    422: "Not acceptable",
    429: "Too many requests",
    500: "The service failed",
    503: "Not available now",
    504: "No answer in time",
}
#: What each kind means and what to do about it: the docs page shows it.
MEANINGS: Mapping[int, str] = {
    400: "The request could not be read: its body is no JSON (or no UTF-8, or nested too deeply), or it came for another host.",
    401: "The header `Authorization: Bearer jiyi_…` is missing, or the key is unknown, expired or revoked.",
    403: "The key is valid, but has not the right that this operation needs. Things of other groups are not forbidden but not found.",
    404: "There is no such thing in the key's group, or no such address.",
    405: "The address exists, but not for this method; the header `Allow` names those it has.",
    409: "An id that was given is taken by something else; choose another. `code` is `id_reused` where an event's id was used again "
    "with other content: nothing of the request is stored, and the first event stays as it is; `conflict` where "
    "somebody else has changed, or decided on, the same thing meanwhile: look again.",
    413: "The body is larger than 1 MiB (events, imports and texts: than 16 MiB), or has more than 100,000 objects "
    "and lists; send several requests.",
    415: "Bodies are JSON: send `Content-Type: application/json`.",
    422: "The request is JSON, but fields are missing, unknown or wrong; `errors` has a sentence for each.",
    429: "The key has asked more often than it may, or it or its group has too many requests under way; the header `Retry-After` says "
    "when to go on.",
    500: "A failure of the service's own. Its log has the details.",
    503: "The database, the broker or the embedding model is away, or too many retrievals wait; `Retry-After` says when to "
    "ask again. Nothing was changed.",
    504: "No worker answered within the time given; it may be slow or away. Reading again is harmless.",
}

_UNKNOWN = re.compile(r"unknown option '([^']{1,400})'")


def field_problem(sentence: str) -> FieldProblem:
    """``field: what is wrong`` in two; a sentence on an unknown option names the field itself."""
    if (unknown := _UNKNOWN.match(sentence)) is not None:
        return FieldProblem(field=unknown[1], message=sentence)
    name, colon, message = sentence.partition(": ")
    if not colon or " " in name:
        return FieldProblem(field="", message=sentence)
    return FieldProblem(field="" if name == "value" else name, message=message)
