"""The ways of docs/architecture.md stay short: so many modules a way, no module on it climbs back, and the
inbox knows no subject.

Static: the modules are those that the document names, and imports are read from their source. Whether a
module that it does not name has a part in a way, only reading tells.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.source import imports, modules

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("jiyi", "engine", "models", "tasks", "workers", "web")
#: The most modules on a way.
MOST = {"an event": 14, "a retrieval": 14}
#: Named beside a way, but no part of it: the same over HTTP, and what is taken instead.
BESIDE = {"web.api.memory", "models.retrieval.large_agents"}
LINE = "tasks.retrieval.retrieve"
SUBJECTS = "accounts conversations erasure growth items operations reflection retrieval stores tiers appointments".split()


def way(name: str) -> list[str]:
    """The modules of a way, in its order: the links of its numbered steps, and of the sentence above them."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.partition(f"## The way of {name}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\d+\. |question →", line)]
    paths = re.findall(r"\]\(\.\./([\w/]+)\.py\)", "\n".join(lines))
    return [path for path in dict.fromkeys(path.replace("/", ".") for path in paths) if path not in BESIDE]


def test_a_way_has_few_modules_and_all_of_them_are_there() -> None:
    known = modules(ROOT, LAYERS).keys()
    for name, most in MOST.items():
        stops = way(name)
        assert set(stops) <= known
        assert 8 <= len(stops) <= most


def test_the_main_job_is_five_files_that_a_stranger_reads_in_ten_minutes() -> None:
    """Those that README names under *How it works*, in both languages."""
    named = []
    for readme, title in (("README.md", "## How it works"), ("README.zh.md", "## 工作原理")):
        text = (ROOT / readme).read_text(encoding="utf-8").partition(title)[2].partition("\n## ")[0]
        named.append(re.findall(r"\]\(([\w/]+\.py)\)", text))
    assert named[0] == named[1]
    lines = [len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in named[0]]
    assert len(lines) == 5
    assert max(lines) <= 300
    assert sum(lines) <= 1_200


def test_every_station_of_a_retrieval_is_called_in_one_place() -> None:
    """The search alone stands twice: before the embedder was waited for, and after."""
    line = (ROOT / "tasks/retrieval/retrieve.py").read_text(encoding="utf-8")
    stations = "embed index.select focal_vectors measure ranking.rank_by ordering.order reranked focal_answer"
    calls = {name: len(re.findall(rf"(?<![\w.]){re.escape(name)}\(", line)) for name in stations.split()}
    assert calls == dict.fromkeys(stations.split(), 1)


def test_nothing_on_the_way_of_a_retrieval_climbs_back_to_its_line_and_what_all_subjects_store_with_imports_none_of_them() -> (
    None
):
    known = imports(modules(ROOT, LAYERS))
    assert [stop for stop in way("a retrieval") if LINE in known[stop]] == []
    counts = {"models.operations.meters"}  # what is counted by all
    for module in ("models.memory.inbox", "models.memory.event_types", "models.queue.stream"):
        mine = {name for name in known[module] if name.startswith("models.")}
        assert {name for name in mine if name.split(".")[1] in SUBJECTS} <= counts, module
