"""What a vendor or a model takes of OpenAI's protocol. Learned from its refusals: no list of them stays true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from jiyi.protocol.wire.json_values import JsonMapping, JsonObject

#: The same question gets the same answer, as far as the vendor can do that.
TEMPERATURE = 0.0
#: How a vendor says that the request is at fault: its form, its size or what it holds.
REFUSED = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests are put."""

    structured: Literal["schema", "object", "words"]
    temperature: bool = True
    #: Newer models of OpenAI want ``max_completion_tokens``.
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def body(self, name: str, schema: JsonMapping, max_tokens: int) -> JsonObject:
        """The part of a request that depends on the dialect; ``schema`` is a strict one."""
        made: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            made["temperature"] = TEMPERATURE
        if self.structured == "schema":
            made["response_format"] = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        elif self.structured == "object":
            made["response_format"] = {"type": "json_object"}
        return made

    def without(self, refusal: str) -> Dialect | None:
        """What to try after a refusal in these words; None if there is nothing left to do without."""
        if "max_completion_tokens" in refusal and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if "temperature" in refusal and self.temperature:
            return replace(self, temperature=False)
        if self.structured == "words":
            return None
        return replace(self, structured="object" if self.structured == "schema" else "words")
