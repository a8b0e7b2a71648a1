"""The optional subjects: one list names all that each consists of, and a setting says which are on.

Promised: nothing of a subject is missing from the list; what is unknown in the setting is named; in a process
where all are off no queue, job, kind of work, action, page or path of one
is there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import subjects
from engine.operations import JOBS
from jiyi.errors import SettingsError
from jiyi.protocol.actions import TABLE
from jiyi.protocol.events import EVENT_TYPES
from jiyi.settings import SUBJECTS, Settings, subject_names
from models.actions import ACTIONS
from models.wiring import HANDLERS
from tasks.framework.work import KINDS
from web.api import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
#: Packages of each subject, as import-linter protects them.
PACKAGES = {
    contract["name"].rpartition(" ")[2]: contract["protected_modules"]
    for contract in CONTRACTS
    if contract["type"] == "protected"
}
ALL = subjects.ALL.values()


def of_subject(module: str) -> str | None:
    """The subject to whose packages a module belongs."""
    for name, packages in PACKAGES.items():
        if any(f"{module}.".startswith(f"{package}.") for package in packages):
            return name
    return None


def test_the_list_the_setting_and_the_contracts_name_the_same_subjects() -> None:
    assert set(subjects.ALL) == set(SUBJECTS) == set(PACKAGES)


def test_whatever_registers_is_in_the_list(configure: Callable[..., Settings]) -> None:
    configure(broker_url="redis://127.0.0.1:1")
    __import__("workers.app").app.app.loader.import_default_modules()
    for name, action in ACTIONS.items():
        owner = next((subject.name for subject in ALL if name.partition(".")[0] in subject.actions), None)
        assert action.function is None or of_subject(action.function.__module__) == owner, name
    assert {name for subject in ALL for name in subject.jobs} <= JOBS.keys()
    assert {name for subject in ALL for name in subject.events} <= set(EVENT_TYPES)
    for subject in ALL:
        assert {kind: KINDS[kind].queue for kind in subject.kinds} == subject.kinds
    assert all(of_subject(handler.__name__) is None for handler in HANDLERS[:4])


def test_every_path_of_a_subject_is_known_and_no_other() -> None:
    for operation in OPERATIONS:
        owners = [subject.name for subject in ALL if re.match(subject.paths, operation.path)]
        assert owners == ([operation.tag] if operation.tag in subjects.ALL else []), operation.path


def test_the_setting_names_those_that_are_on_and_an_unknown_one_is_named(
    configure: Callable[..., Settings],
) -> None:
    everything = {",".join(SUBJECTS): set(SUBJECTS)}
    for value, names in (
        {"": set(), "none": set(), "stores, tiers": {"stores", "tiers"}} | everything
    ).items():
        assert subject_names(configure(subjects=value).subjects) == names
    for value, sentence in {
        "stores,grwth": "JIYI_SUBJECTS: unknown subject 'grwth': did you mean growth?",
        "memory": "JIYI_SUBJECTS: unknown subject 'memory': known are growth, items, stores, tiers",
    }.items():
        with pytest.raises(SettingsError, match=re.escape(sentence)):
            configure(subjects=value)


#: What a process of the whole service has, as JSON; imports as its workers and its web do.
LOOK = """
import json, sys
from workers import procfile
from workers.app import app
from web import create_app
from engine.operations import JOBS
from models.actions import ACTIONS, REFUSED
from models.memory.event_types import registry
from models.queue.wakeups import QUEUES
from web.api import OPERATIONS
from web.admin import BLUEPRINTS
app.loader.import_default_modules()
modules = sorted(sys.modules)
print(json.dumps({
    "modules": modules, "commands": sorted(procfile.commands()), "queues": sorted(app.amqp.queues),
    "jobs": sorted(JOBS), "beat": sorted(app.conf.beat_schedule), "actions": sorted(ACTIONS), "refused": sorted(REFUSED),
    "events": sorted(event.model_fields["type"].default for event in registry().types), "kinds": sorted(QUEUES),
    "tasks": sorted(app.tasks), "paths": sorted(operation.path for operation in OPERATIONS),
    "pages": [str(page.endpoint) for pages in BLUEPRINTS for page in pages.entries],
}))
"""


def look(names: str) -> dict[str, list[str]]:
    """What a fresh process has with these subjects on."""
    nowhere = {
        "JIYI_BROKER_URL": "redis://127.0.0.1:1",
        "JIYI_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/no",
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=ROOT,
        env=os.environ | nowhere | {"JIYI_SUBJECTS": names},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_with_all_off_nothing_of_them_is_there() -> None:
    found = look("none")
    there = {module for module in found["modules"] if of_subject(module)}
    layers = {module.partition(".")[0] for module in there}
    assert layers <= {"engine", "models"}, "but what erases and re-embeds"
    assert not [module for module in there if module.rpartition(".")[2].endswith("actions")]
    assert "growth" not in found["commands"] + found["queues"]
    for subject in ALL:
        assert set(subject.jobs).isdisjoint(found["jobs"] + found["beat"])
        assert set(subject.kinds).isdisjoint(found["kinds"])
        assert set(subject.events).isdisjoint(found["events"])
        assert not [name for name in found["actions"] if name.partition(".")[0] in subject.actions]
        assert not [path for path in found["paths"] if re.match(subject.paths, path)]
    assert {*found["actions"], *found["refused"]} == TABLE.keys()
    answered = {f"rpc.{name}" for name in found["refused"]} | {"retrieval.memory"}
    assert answered <= set(found["tasks"]), "a question is answered"
    assert "overview.page" in found["pages"]


def test_one_alone_comes_with_all_that_is_its_own() -> None:
    found = look("stores")
    stores = subjects.ALL["stores"]
    modules = [name for name in found["modules"] if name.startswith(("tasks.", "web."))]
    assert {of_subject(name) for name in modules} == {None, "stores"}
    assert set(stores.jobs) <= set(found["beat"])
    assert set(stores.kinds) <= set(found["kinds"])
    assert "stores.index" in found["pages"]
    actions, known = (
        {name for name in names if name.startswith("stores.")} for names in (found["actions"], TABLE)
    )
    assert actions == known
