"""What comes with an update: snapshots, with the bytes of their attachments apart."""

from __future__ import annotations

from dataclasses import dataclass

from jiyi.protocol.stores.asking import UpdateStore
from jiyi.protocol.stores.items import AttachmentNote, Snapshot
from jiyi.stores.snapshots import Attached, detach


@dataclass(frozen=True, slots=True)
class Taken:
    """Snapshots without bytes, and the attachments of both."""

    given: Snapshot | None
    output: Snapshot | None
    attached: list[Attached]

    @property
    def notes(self) -> list[AttachmentNote]:
        return [one.note for one in self.attached]


def taken(request: UpdateStore) -> Taken:
    """Raises :class:`jiyi.errors.InvalidRequest`: an attachment is too large."""
    given, first = (None, []) if request.input_snapshot is None else detach(request.input_snapshot)
    output, second = (None, []) if request.output_snapshot is None else detach(request.output_snapshot)
    return Taken(given, output, [*first, *second])
