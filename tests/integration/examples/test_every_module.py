"""Every benchmark and every example runs on tiny input. A new module is in by itself, without arguments until
it is named here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.retrieval.test_parity import STANFORD
from workers.migrate import CHECKOUT

#: Modules that only others import.
SUPPORT = {"examples.service"}
#: Seconds that a module with a service of its own may take on a machine that does much else.
SECONDS = 900
LOCOMO, MEMDAILY, SET, LABELLED, LIFE = "locomo.json", "memdaily.json", "set.json", "labelled", "life.jsonl"
#: Tiny input, as arguments of the command line; file names are those of the fixture ``folder``.
ARGUMENTS: dict[str, list[str]] = {
    "bench.attack": ["--seconds", "1", "--only", "documents without a key"],
    "bench.cold": ["--nodes", "50", "--agents", "1"],
    "bench.due": ["--agents", "3"],
    "bench.durability": ["--events", "50", "--rounds", "1"],
    "bench.embedding": ["--texts", "8", "--rounds", "1", "--embedder", "hashing"],
    "bench.extraction": [LOCOMO, MEMDAILY, "--limit", "1"],
    "bench.growth": [LOCOMO, "--limit", "1", "--agents", "2"],
    "bench.ingest": ["--events", "50", "--rounds", "1"],
    "bench.injection": [LOCOMO, "--limit", "1", "--budgets", "500"],
    "bench.judgements": ["--labelled", LABELLED],
    "bench.latency": ["--nodes", "50", "--retrievals", "3"],
    "bench.llm": [LIFE, "--lives", "1", "--talks", "1"],
    "bench.locomo": [LOCOMO, "--limit", "1"],
    "bench.memdaily": [MEMDAILY, "--limit", "1"],
    "bench.pages": ["--memories", "60", "--agents", "3", "--visits", "1"],
    "bench.parity": [str(STANFORD / "isabella_step_3_8"), str(STANFORD / "cases_single.json")],
    "bench.peers": [LOCOMO, "--limit", "1", "--only", "jiyi"],
    "bench.proxy": ["--memories", "50", "--requests", "3", "--streams", "3"],
    "bench.reembed": ["--nodes", "50", "--kills", "0", "--to", "hashing:256"],
    "bench.scale": ["--tenants", "3", "--memories", "60", "--large", "60"],
    "bench.sets": [SET],
    "bench.soak": ["--minutes", "0.1", "--rate", "5"],
    "bench.stores": ["simple", MEMDAILY, "--limit", "1"],
    "bench.storm": ["--minutes", "0.1"],
    "bench.tenants": ["--tenants", "3", "--memories", "20"],
    "bench.traces": [str(STANFORD)],
    "bench.truth": [LIFE],
    "bench.tune": [LOCOMO, MEMDAILY],
    "bench.web": ["--clients", "1", "--memories", "20", "--seconds", "0.2"],
}
#: Those that take seconds, because they need no worker; nor does bench.due, which ``test_ended`` starts.
#: ``make test-long`` has the others.
QUICK = {"bench.intents", "bench.schedule"}
#: Modules that end with exit code 1 where a bound is exceeded, as it is on a machine that does much else.
BOUNDED = {"bench.attack"}
#: Modules that replay recordings which do not come with the code.
RECORDED = {"bench.parity", "bench.traces"}
CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2022",
        "session_1": [
            {"speaker": "Bo", "dia_id": "D1:1", "text": "I moved to Bergen in spring, the rain never stops."},
            {"speaker": "Ann", "dia_id": "D1:2", "text": "My kiln reached thirteen hundred degrees."},
        ],
        "session_2_date_time": "9:05 am on 1 June, 2022",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "The glaze on the blue cups cracked again."},
            {"speaker": "Bo", "dia_id": "D2:2", "text": "I bought a bicycle for the way to work."},
        ],
    },
    "qa": [
        {"question": "Where does Bo live?", "answer": "Bergen", "evidence": ["D1:1"], "category": 4},
        {"question": "What happened to the cups?", "answer": "cracked", "evidence": ["D2:1"], "category": 1},
    ],
}
TRAJECTORY = {
    "kind": "simple",
    "source": "01_simple_events",
    "tid": 7,
    "messages": [
        {"mid": 0, "message": "我要去喝茶。", "time": "2024年04月01日 周一 08:30", "place": "浙江杭州"},
        {"mid": 1, "message": "茶馆在湖边。", "time": "2024年4月2日 周二 9:05", "place": "浙江杭州"},
    ],
    "questions": [{"question": "茶馆在哪？", "answer": "湖边", "target_step_id": [1]}],
}
DIARY = [
    {
        "agent_id": "Bo",
        "memories": [{"key": "m1", "text": "Bo moved to Bergen.", "at": "2026-03-02T09:00:00+00:00"}],
        "questions": [{"text": "Where does Bo live?", "evidence": ["m1"], "kind": "place"}],
    }
]
FACTS = [
    {"id": "ann-f001", "language": "en", "before": "", "text": "I have asthma.", "lasting": True},
    {"id": "ann-f002", "language": "zh", "before": "", "text": "好的，谢谢！", "lasting": False},
]
LIVED = {
    "id": "life-1",
    "language": "en",
    "kind": "part-ends",
    "turns": [
        {
            "at": "2026-03-02T09:00:00+02:00",
            "role": "user",
            "text": "I have a cat and a bike.",
            "session": "s1",
        }
    ],
    "questions": [
        {"q": "What do I have?", "at": "2026-05-02T09:00:00+02:00", "has": [["cat"]], "not": ["dog"]}
    ],
}
MODULES = sorted(
    {
        f"{path.parent.name}.{path.stem}"
        for room in ("bench", "examples")
        for path in (CHECKOUT / room).glob("[!_]*.py")
    }
    - SUPPORT
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the smallest data of each kind."""
    made = tmp_path_factory.mktemp("tiny")
    for name, content in ((LOCOMO, [CONVERSATION]), (MEMDAILY, [TRAJECTORY]), (SET, DIARY)):
        (made / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (made / LIFE).write_text(json.dumps(LIVED), encoding="utf-8")
    (made / LABELLED).mkdir()
    lines = [json.dumps(row, ensure_ascii=False) for row in FACTS]
    (made / LABELLED / "facts_ann.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return made


def run(module: str, folder: Path, environment: dict[str, str]) -> None:
    """Run it to its end; it has to succeed, to say something and to leave no folder."""
    with tempfile.TemporaryDirectory(prefix="jm-", dir="/tmp") as temporary:  # short, for unix sockets
        done = subprocess.run(
            [sys.executable, "-m", module, *ARGUMENTS.get(module, [])],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(CHECKOUT), "TMPDIR": temporary, "JIYI_EMBEDDER": "hashing"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in ({0, 1} if module in BOUNDED else {0}), (
            done.stdout[-3_000:] + done.stderr[-3_000:]
        )
        assert done.stdout.strip() or done.stderr.strip()
        assert "Traceback" not in done.stderr
        assert list(Path(temporary).glob("jiyi-*")) == []


@pytest.mark.parametrize("module", [name for name in MODULES if name in QUICK])
def test_a_quick_module_runs(module: str, folder: Path) -> None:
    run(module, folder, without_service())


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.parametrize("module", [name for name in MODULES if name not in QUICK])
def test_a_module_with_a_service_of_its_own_runs(module: str, folder: Path) -> None:
    if module == "examples.langgraph_node":
        pytest.importorskip("langgraph", reason="needs the extra `langgraph`")
    if module in RECORDED and not STANFORD.is_dir():
        pytest.skip("needs the recordings")
    run(module, folder, without_service())


def test_every_module_that_is_named_here_is_there() -> None:
    named: set[Any] = {*ARGUMENTS, *QUICK, *BOUNDED, *RECORDED}
    assert named <= set(MODULES)


def without_service() -> dict[str, str]:
    """An environment that knows no service, so that it starts one of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
    return {**kept, "JIYI_HOME": "/nonexistent/jiyi"}
