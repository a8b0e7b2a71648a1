"""The optional subjects: the names of what each does, and which are on in this process (``JIYI_SUBJECTS``).

Their modules are named where each layer is wired: :mod:`models.wiring`, :mod:`tasks.wiring`,
:mod:`web.admin.wiring` and :mod:`web.api.wiring`. Nothing else of the core imports one (import-linter checks
it); what a subject adds to the core it registers when it is imported. Of a subject that is off only what
erases and re-embeds is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from jiyi.errors import SettingsError, SwitchedOff
from jiyi.settings import SUBJECTS, get_settings, subject_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Names of what an optional subject does."""

    name: str
    #: Celery queues of its own, each with a worker.
    queues: tuple[str, ...] = ()
    #: Kinds of pending work → the queue that their wake-ups go to.
    kinds: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    #: First parts of the names of its actions.
    actions: tuple[str, ...] = ()
    #: Tasks that answer, besides those of actions.
    calls: tuple[str, ...] = ()
    #: Paths of the REST API, as a regular expression of their beginning.
    paths: str

    @property
    def refusal(self) -> SwitchedOff:
        """The error that a caller gets where the subject is off."""
        return SwitchedOff(
            f"the subject {self.name!r} is switched off in this deployment: "
            "add it to JIYI_SUBJECTS and restart the service (docs/configuration.md)"
        )


#: Appointments are part of growth: they share its queue, its folder of the API, and the scan that finds what
#: is due.
GROWTH = Subject(
    name="growth",
    queues=("growth",),
    kinds=dict.fromkeys("aggregate compose weigh follow_profile merge_pains solve_pain".split(), "growth")
    | {"fire_schedule": "growth", "heartbeat": "growth", "compress": "reflection"},
    jobs=("due_scan",),
    events=("turn.step", "feedback.given"),
    actions=(
        *("proposals", "feedback", "patterns", "evolution", "pains", "identity", "self_review", "tallies"),
        *("appointments", "heartbeats", "health"),
    ),
    paths=(
        "/(proposals|feedback|patterns|evolution|pains|identity|self_review|tallies|appointments|heartbeats)/"
    ),
)
STORES = Subject(
    name="stores",
    kinds={"embed_items": "embedding", "index_file": "upkeep", "scan_files": "upkeep", "send_item": "upkeep"},
    jobs=("scan_stores",),
    actions=("stores",),
    paths="/stores/",
)
TIERS = Subject(
    name="tiers",
    kinds={"embed_knowledge": "embedding", "ingress": "embedding", "consistency": "reflection"},
    jobs=("digest", "expire_working_memory"),
    events=("node.executed",),
    actions=("quarantine", "working_memory", "knowledge", "digests", "context"),
    calls=("retrieval.memory",),
    paths=(
        "/(knowledge|quarantine|nodes/memory-retrieval|memory/(query|ingest|working|context"
        "|promote|check|demote|digests?)|sessions/.+/knowledge)"
    ),
)
ITEMS = Subject(
    name="items",
    kinds={"embed_values": "embedding"},
    jobs=("expire_items",),
    actions=("items",),
    paths="/items",
)
#: Every optional subject, by name.
ALL: Mapping[str, Subject] = {subject.name: subject for subject in (GROWTH, STORES, TIERS, ITEMS)}


@cache
def on() -> tuple[Subject, ...]:
    """Those that are on in this process; all of them where the settings are wrong, which the program says
    next.
    """
    try:
        names = subject_names(get_settings().subjects)
    except SettingsError:
        names = frozenset(SUBJECTS)
    return tuple(ALL[name] for name in SUBJECTS if name in names)


@cache
def off() -> tuple[Subject, ...]:
    return tuple(subject for subject in ALL.values() if subject not in on())


_WIRED: list[str] = []


def wired(by: str) -> None:
    """Say that every subject has registered what it adds to the core."""
    _WIRED.append(by)


def need_all() -> None:
    """Raise RuntimeError in a process that has not imported what registers: half an erasure is none."""
    if not _WIRED:
        raise RuntimeError("nothing has registered yet: import models.wiring where the process begins")


def is_on(name: str) -> bool:
    return any(subject.name == name for subject in on())


# The subject that is off to which something belongs; None if there is none.
def of_action(name: str) -> Subject | None:
    return next((subject for subject in off() if name.partition(".")[0] in subject.actions), None)


def of_event(name: str) -> Subject | None:
    return next((subject for subject in off() if name in subject.events), None)


def of_job(name: str) -> Subject | None:
    return next((subject for subject in off() if name in subject.jobs), None)


def of_path(path: str) -> Subject | None:
    return next((subject for subject in off() if re.match(subject.paths, path)), None)


def of_kind(kind: str) -> Subject | None:
    return next((subject for subject in off() if kind in subject.kinds), None)


def queues() -> list[str]:
    return [queue for subject in on() for queue in subject.queues]


def kinds() -> Iterator[tuple[str, str]]:
    """Kinds of pending work of the subjects that are on, each with its queue."""
    for subject in on():
        yield from subject.kinds.items()
