"""What an LLM's server takes of OpenAI's protocol: learned from its refusals, since no list of vendors stays
true.

It is kept for a server's address and a model, for a day (:mod:`engine.providers.known`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from engine.providers import known
from engine.providers.spec import Endpoint
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.providers import Structured

#: The same question gets the same answer, as far as the vendor can do that.
TEMPERATURE = 0.0
#: How a vendor says that the request is at fault: its form, its size or what it holds.
REFUSED = frozenset({400, 413, 422})
TOO_LARGE = 413
#: Seconds that what was learned holds: servers are updated.
LEARNED_SECONDS = 86_400

#: From the most to the least that a server is asked for.
FORMS: tuple[Structured, ...] = get_args(Structured)
#: Keywords that say how long, how many or how large: not every vendor's schemas know them, and we check them.
LIMITS = frozenset(
    "pattern minLength maxLength minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum".split()
)
#: Never sent: names of our classes and values of ours, which models copy.
OURS = frozenset({"title", "default"})

Cause: TypeAlias = Literal["length", "filter", "form", ""]
#: Why a request is refused, by vendors' codes and words; in this order, as one may name a schema, too.
_CAUSES: Mapping[Cause, re.Pattern[str]] = {
    "length": re.compile(
        r"context[_ -]?(?:length|size|window)|exceed_context|maximum context|string_above_max_length"
        r"|too many tokens|(?:prompt|input|message|text|request)s? (?:is |are )?too (?:long|large)"
        r"|max_model_len|input length|token count"
    ),
    "filter": re.compile(
        r"content[_ -]?(?:filter|policy|management|violation)|content exists risk|data_inspection"
        r"|inappropriate content|moderation|sensitive (?:content|words)|敏感内容"
    ),
    "form": re.compile(
        r"response[_ ]?format|json[_ ](?:schema|object|mode)|\bschema|\bgrammar|guided|structured[_ ]output"
    ),
}
#: Words of a refusal that is about the kind of form, and not about what stands in a schema.
_KIND = re.compile(r"response[_ ]?format|json_(?:schema|object)|json[_ ]mode")
_WORD = re.compile(r"[A-Za-z]+")


def cause_of(refusal: str, status: int | None = None) -> Cause:
    """What a refusal in these words (code included) is about; empty if it names nothing known here."""
    words = refusal.lower()
    match: Cause = next((cause for cause, pattern in _CAUSES.items() if pattern.search(words)), "")
    return match or ("length" if status == TOO_LARGE else "")


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """How requests are put."""

    structured: Structured
    #: Keywords that are left out of schemas.
    without_keywords: frozenset[str] = frozenset()
    temperature: bool = True
    #: Newer models of OpenAI want ``max_completion_tokens``.
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def body(self, name: str, schema: JsonMapping, max_tokens: int) -> JsonObject:
        """The part of a request that depends on the dialect; ``schema`` is pydantic's."""
        body: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            body["temperature"] = TEMPERATURE
        if self.structured == "schema":
            form = {"name": name, "strict": True, "schema": strict_schema(schema, self.without_keywords)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif self.structured == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def without(self, refusal: str, *, pinned: bool = False) -> ServerDialect | None:
        """What to try after a refusal in these words: without what it names; None if it names nothing of
        this.

        ``pinned``: the form stays.
        """
        if "max_completion_tokens" in refusal and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if "temperature" in refusal and self.temperature:
            return replace(self, temperature=False)
        if cause_of(refusal) != "form" or self.structured == "words":
            return None
        if self.structured == "schema":
            remaining = LIMITS - self.without_keywords
            keywords = remaining & set(_WORD.findall(refusal))
            if keywords or (remaining and not _KIND.search(refusal.lower())):
                return replace(self, without_keywords=self.without_keywords | (keywords or remaining))
        return None if pinned else replace(self, structured=FORMS[FORMS.index(self.structured) + 1])


def strict_schema(schema: Any, without: frozenset[str] = frozenset()) -> Any:
    """A schema as vendors take it who promise to keep to it: all that is named, nothing else, no titles.

    Descriptions of fields stay; those of objects are the docstrings of our classes.
    """
    if isinstance(schema, list):
        return [strict_schema(item, without) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_object = schema.get("type") == "object"
    left_out = OURS | without | ({"description"} if is_object else frozenset())
    strict = {
        # Names of fields are no keywords: a field may well be called "description".
        key: (
            {name: strict_schema(part, without) for name, part in value.items()}
            if key in ("properties", "$defs")
            else strict_schema(value, without)
        )
        for key, value in schema.items()
        if key not in left_out
    }
    if not is_object:
        return strict
    return {**strict, "required": list(strict.get("properties", ())), "additionalProperties": False}


DIALECT = "dialect"


def recall(endpoint: Endpoint, pinned: Structured | None) -> ServerDialect:
    """Learned in the last day, or the vendor's usual. ``pinned``: the form to ask for."""
    dialect = _of(known.read(endpoint).get(DIALECT)) or ServerDialect(endpoint.preset.structured)
    return dialect if pinned is None else replace(dialect, structured=pinned)


def remember(endpoint: Endpoint, dialect: ServerDialect, pinned: Structured | None) -> None:
    """Keep what has helped, for a day; a form that was ``pinned`` was not learned."""
    structured = dialect.structured if pinned is None else endpoint.preset.structured
    content = asdict(dialect) | {"structured": structured}
    content["without_keywords"] = sorted(dialect.without_keywords)
    known.write(endpoint, DIALECT, content, LEARNED_SECONDS)


def _of(content: Any) -> ServerDialect | None:
    try:
        return ServerDialect(**{**content, "without_keywords": frozenset(content["without_keywords"])})
    except (TypeError, KeyError):  # not learned, or another version's
        return None
