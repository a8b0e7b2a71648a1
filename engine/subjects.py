"""The optional subjects: all that each consists of, in one list, and which are on in this process
(``JIYI_SUBJECTS``).

The core imports no module of an optional subject (import-linter checks it). Whatever belongs to one is found
here by its name and imported where the subject is on; what it adds to the core it registers there when it is
imported. Of a subject that is off only ``tables`` and ``always`` are imported: its tables stay, an erasure
reaches them, and a move to another embedder owes its vectors anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from jiyi.errors import SettingsError, SwitchedOff
from jiyi.settings import SUBJECTS, get_settings, subject_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an optional subject consists of: names of modules by what reads them, and of what it does."""

    name: str
    #: Modules with its tables, and those that say what erasure and re-embedding do with them: imported
    #: whether it is on or off.
    tables: tuple[str, ...]
    always: tuple[str, ...]
    #: Modules that say what events become, and what follows from conversations.
    handlers: tuple[str, ...] = ()
    #: Modules with actions, and with what the core's pages and reads tell of it.
    models: tuple[str, ...] = ()
    #: Modules with Celery tasks; those with scheduled jobs are imported first.
    tasks: tuple[str, ...] = ()
    job_tasks: tuple[str, ...] = ()
    #: Modules of pages, in the order of the menu, and of the REST API.
    admin: tuple[str, ...] = ()
    api: tuple[str, ...] = ()
    #: Celery queues of its own, each with a worker.
    queues: tuple[str, ...] = ()
    #: Kinds of pending work → the queue that their wake-ups go to.
    kinds: Mapping[str, str] = field(default_factory=dict)
    #: Scheduled jobs.
    jobs: tuple[str, ...] = ()
    #: Types of events.
    events: tuple[str, ...] = ()
    #: First parts of the names of its actions.
    actions: tuple[str, ...] = ()
    #: Tasks that answer, besides those of actions.
    calls: tuple[str, ...] = ()
    #: Paths of the REST API, as a regular expression of their beginning.
    paths: str

    @property
    def refusal(self) -> SwitchedOff:
        """What whoever asks for something of it is told where it is off."""
        return SwitchedOff(
            f"the subject {self.name!r} is switched off in this deployment: "
            "add it to JIYI_SUBJECTS and start the service anew (docs/configuration.md)"
        )


#: Appointments are part of growth: they share its queue, its folder of the API, and the scan that finds what
#: is due.
GROWTH = Subject(
    name="growth",
    tables=("models.growth.tables", "models.appointments.tables"),
    always=("models.growth.erasure",),
    handlers=(
        "models.growth.trajectories",
        "models.growth.evolution",
        "models.growth.self_review",
        "models.growth.prompts",
    ),
    models=(
        "models.growth.proposal_actions",
        "models.growth.artifacts",
        "models.growth.trajectories",
        "models.growth.identity_actions",
        "models.growth.pain_actions",
        "models.growth.self_review",
        "models.appointments.schedule_actions",
        "models.appointments.heartbeat_actions",
    ),
    tasks=("tasks.growth.self_review", "tasks.growth.pains", "tasks.growth.evolution"),
    job_tasks=("tasks.appointments",),
    admin=("web.admin.growth", "web.admin.appointments"),
    queues=("growth",),
    kinds=dict.fromkeys("aggregate compose weigh follow_profile merge_pains solve_pain".split(), "growth")
    | {"fire_schedule": "growth", "heartbeat": "growth", "compress": "reflection"},
    jobs=("due_scan",),
    events=("turn.step", "feedback.given"),
    actions=(
        *("proposals", "feedback", "patterns", "evolution", "pains", "identity", "self_review", "tallies"),
        *("appointments", "heartbeats", "health"),
    ),
    paths="/(proposals|feedback|patterns|evolution|pains|identity|self_review|tallies|appointments|heartbeats)/",
)
STORES = Subject(
    name="stores",
    tables=("models.stores.tables",),
    always=("models.stores.erasure", "models.stores.items"),
    models=("models.stores.actions",),
    tasks=("tasks.stores.search",),
    job_tasks=("tasks.stores.index_files",),
    admin=("web.admin.stores",),
    kinds={"embed_items": "embedding", "index_file": "upkeep", "scan_files": "upkeep", "send_item": "upkeep"},
    jobs=("scan_stores",),
    actions=("stores",),
    paths="/stores/",
)
TIERS = Subject(
    name="tiers",
    tables=("models.tiers.tables",),
    always=("models.tiers.erasure", "models.tiers.knowledge"),
    handlers=("models.tiers.quarantine",),
    models=("models.tiers.actions", "models.tiers.questions"),
    job_tasks=("tasks.tiers",),
    admin=("web.admin.tiers",),
    api=("web.api.tiers",),
    kinds={"embed_knowledge": "embedding", "ingress": "embedding", "consistency": "reflection"},
    jobs=("digest", "expire_working_memory"),
    events=("node.executed",),
    actions=("quarantine", "working_memory", "knowledge", "digests", "context"),
    calls=("retrieval.memory",),
    paths="/(knowledge|quarantine|nodes/memory-retrieval|memory/(query|ingest|working|context|promote|check|demote|digests?)|sessions/.+/knowledge)",
)
ITEMS = Subject(
    name="items",
    tables=("models.items.storage",),
    always=("models.items.storage",),
    models=("models.items.actions",),
    job_tasks=("tasks.items",),
    api=("web.api.items",),
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


def load_always() -> None:
    """Import what is needed of every subject, on or off, for its tables to be erased and embedded anew."""
    for subject in ALL.values():
        for module in subject.always:
            import_module(module)


def of_action(name: str) -> Subject | None:
    """The subject that is off, to which an action belongs."""
    first = name.partition(".")[0]
    return next((subject for subject in off() if first in subject.actions), None)


def of_event(name: str) -> Subject | None:
    """The subject that is off, to which a type of events belongs."""
    return next((subject for subject in off() if name in subject.events), None)


def of_job(name: str) -> Subject | None:
    """The subject that is off, to which a scheduled job belongs."""
    return next((subject for subject in off() if name in subject.jobs), None)


def of_path(path: str) -> Subject | None:
    """The subject that is off, to which a path of the REST API belongs."""
    return next((subject for subject in off() if re.match(subject.paths, path)), None)


def of_kind(kind: str) -> Subject | None:
    """The subject that is off, to which a kind of pending work belongs."""
    return next((subject for subject in off() if kind in subject.kinds), None)


def queues() -> list[str]:
    return [queue for subject in on() for queue in subject.queues]


def kinds() -> Iterator[tuple[str, str]]:
    """Kinds of pending work of the subjects that are on, each with its queue."""
    for subject in on():
        yield from subject.kinds.items()
