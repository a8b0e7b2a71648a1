"""What a document may cost to parse, and how a parser says that it will not have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIB = 1 << 20
#: Kinds of limits that a document can exceed.
Limit = Literal["memory", "cpu", "wall", "output"]


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """The most that one document may cost."""

    #: Bytes of address space of the child, its interpreter and libraries included.
    memory_bytes: int = 1024 * MIB
    #: Seconds of the processor.
    cpu_seconds: int = 60
    #: Seconds that the parent waits for the child, in all: others want the processor, too.
    wall_seconds: float = 120.0
    #: Bytes that the parser gives, as JSON.
    output_bytes: int = 128 * MIB

    def sentence(self, limit: Limit) -> str:
        """Which limit was exceeded, for people."""
        return {
            "memory": f"parsing it takes more than {self.memory_bytes // MIB:,} MB of memory",
            "cpu": f"parsing it takes more than {self.cpu_seconds:,} s of the processor",
            "wall": f"parsing it takes more than {self.wall_seconds:,.0f} s",
            "output": f"it unfolds to more than {self.output_bytes // MIB:,} MB",
        }[limit]


class RefusedDocument(ValueError):  # noqa: N818 – no fault of the service
    """A document that cannot be used: ``state`` is a word for programs, ``reason`` a sentence."""

    def __init__(self, state: str, reason: str) -> None:
        self.state = state
        self.reason = reason
        super().__init__(f"{state}: {reason}")


class LimitExceeded(RefusedDocument):
    """A document that costs more than its limits allow."""

    def __init__(self, reason: str) -> None:
        super().__init__("too_large", reason)
