"""jiyi.settings: where a setting comes from, and what is said about a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jiyi.errors import SettingsError
from jiyi.settings import AgentDefaults, Settings, UnknownSetting, get_settings, unknown_variables
from tools.settings import FIRST, SECTIONS, documentation

ROOT = Path(__file__).resolve().parents[2]

Configure = Callable[..., Settings]


def leave_addresses(home: Path, text: str) -> None:
    """What a running embedded copy leaves in its home."""
    (home / "run").mkdir()
    (home / "run" / "jiyi.env").write_text(text, encoding="utf-8")


FREE = set(
    "backup_dir broker_url database_url embedder_api_key home jobs_off key llm llm_api_key llm_base_url"
    " llm_prices heads_weights oidc_file private_hosts redis_url secret_key store_roots web_host web_hosts".split()
)
CHECKED = sorted(Settings.model_fields.keys() - FREE)


@pytest.mark.parametrize("name", CHECKED)
def test_a_wrong_value_is_refused_with_the_name_of_its_variable(name: str, configure: Configure) -> None:
    wrong = "x" * 129 if Settings.model_fields[name].annotation is str else "nonsense"
    with pytest.raises(SettingsError, match=f"^JIYI_{name.upper()}: .*docs/configuration.md"):
        configure(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("web_port", 65_536, 65_535),
        ("group", "", "组"),
        ("index_max_nodes", 9, 10),
        ("request_timeout", 0, 1),
        ("jobs_off", "a;b", "archive"),
        ("embed_batch", 2.5, 2),
        ("retrieval_shards", "", 1),
    ],
)
def test_a_value_out_of_bounds_is_refused_and_one_at_its_bound_accepted(
    name: str, value: object, bound: object, configure: Configure
) -> None:
    with pytest.raises(SettingsError, match=f"^JIYI_{name.upper()}: "):
        configure(**{name: value})
    assert getattr(configure(**{name: bound}), name) == bound


def test_several_wrong_values_are_all_named_wherever_they_stand(configure: Configure, tmp_path: Path) -> None:
    leave_addresses(tmp_path, "JIYI_WEB_PORT=no\n")
    with pytest.raises(SettingsError, match=r"JIYI_WEB_PORT: .*; JIYI_AGENT_DEFAULTS: recency_w: "):
        configure(agent_defaults="recency_w=no")


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert configure().group == "default"
    leave_addresses(tmp_path, "JIYI_GROUP=from-the-file\nJIYI_EMBED_BATCH=7\nJIYI_UNKNOWN=1\n")
    assert configure().group == "from-the-file"
    settings = configure(group="from-the-environment")
    assert (settings.group, settings.embed_batch, settings.web_port) == ("from-the-environment", 7, 8_765)
    monkeypatch.setenv("JIYI_GROUP", "later")
    assert get_settings() is settings  # they are read once
    monkeypatch.delenv("JIYI_GROUP")
    (tmp_path / "other").mkdir()
    leave_addresses(tmp_path / "other", "JIYI_GROUP=other\n")
    settings = configure(home=tmp_path / "other")  # the file is looked for in the home that is set
    assert (settings.group, settings.home) == ("other", tmp_path / "other")


@pytest.mark.parametrize("name", ["database_url", "broker_url", "redis_url"])
def test_an_address_that_is_set_is_given_and_a_missing_one_says_what_to_do(
    name: str, configure: Configure, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        configure().need(name)
    assert str(tmp_path) in str(caught.value)
    assert f"JIYI_{name.upper()}" in str(caught.value)
    assert "jiyi up" in str(caught.value)
    assert configure(**{name: "scheme://somewhere"}).need(name) == "scheme://somewhere"


@pytest.mark.parametrize(("variable", "name"), [("DATABASE_URL", "database_url"), ("REDIS_URL", "redis_url")])
def test_14_addresses_under_other_programs_names_are_accepted(
    variable: str, name: str, configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, "scheme://theirs")
    assert configure().need(name) == "scheme://theirs"
    leave_addresses(tmp_path, f"JIYI_{name.upper()}=scheme://the-running-copy\n")
    assert getattr(configure(), name) == "scheme://the-running-copy"
    assert getattr(configure(**{name: "scheme://ours"}), name) == "scheme://ours"


def test_14_a_database_may_be_named_as_others_name_it_but_theirs_is_not_ours(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        assert (
            configure(database_url=f"{scheme}://u:p@h/d?sslmode=require").database_url
            == "postgresql+psycopg://u:p@h/d?sslmode=require"
        )
    monkeypatch.delenv("JIYI_DATABASE_URL")
    monkeypatch.setenv("DATABASE_URL", "postgresql://theirs")
    (tmp_path / "postgres").mkdir()  # an embedded copy that does not run
    assert configure().database_url == ""


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("llm_budget", "abc", "'500' or '500/20' or '/20'"),
        ("reranker", "compatible:x", "'off' or "),
        ("rate_limit", "fast", "'100/second'"),
    ],
)
def test_what_has_a_form_of_its_own_is_shown_in_it(
    configure: Configure, name: str, value: str, form: str
) -> None:
    with pytest.raises(
        SettingsError, match=rf"JIYI_{name.upper()}: is not of its form; write it like {form}.*got '{value}'"
    ):
        configure(**{name: value})


def test_examples_are_of_their_form(configure: Configure) -> None:
    for name, field in Settings.model_fields.items():
        for example in field.examples or []:
            configure(**{name: example})


def test_a_default_of_agents_that_is_set_by_itself_is_sent_to_its_place() -> None:
    assert unknown_variables({"JIYI_RECENCY_W": "2"}) == [
        "unknown setting 'JIYI_RECENCY_W': write JIYI_AGENT_DEFAULTS=recency_w=…; it has no effect"
    ]


def test_the_documentation_is_printed_whatever_is_set_here() -> None:
    environment = os.environ | {"JIYI_GROUP": "mine", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tools.settings"],
        env=environment,
        capture_output=True,
        check=True,
        timeout=200,
    )
    assert done.stdout == documentation().encode()


def test_the_documentation_has_a_row_for_every_setting_in_a_section_that_there_is() -> None:
    rows = [line for line in documentation().splitlines() if line.startswith("| `JIYI_")]
    names = [row.split("`")[1].removeprefix("JIYI_").lower() for row in rows]
    assert names == [*FIRST, *(name for name in Settings.model_fields if name not in FIRST)]
    assert "| `JIYI_WEB_PORT` | `8765`; 1–65,535 | " in documentation()
    assert "| `dedupe` | `off`; `exact` | " in documentation()
    assert "| `recency_decay` | `0.99`; >0–1 | " in documentation()
    assert "| `JIYI_HOME` | the user's data directory | " in documentation()
    assert all(
        field.description and field.description.endswith(".") for field in Settings.model_fields.values()
    )
    assert SECTIONS.keys() <= Settings.model_fields.keys() - set(FIRST)
    assert documentation().count("\n## ") == 1 + len(SECTIONS)


def test_a_variable_that_is_no_setting_is_warned_about_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JIYI_LLM_TIMEOUTS", "3")
    get_settings.cache_clear()
    with pytest.warns(
        UnknownSetting,
        match="^unknown setting 'JIYI_LLM_TIMEOUTS': did you mean JIYI_LLM_TIMEOUT; it has no effect$",
    ):
        get_settings()
    assert unknown_variables({"JIYI_GROUP": "g", "PATH": "", "JIYI_SHARED_DATA": "x"}) == []
    get_settings.cache_clear()


def test_backups_are_made_daily_where_they_have_a_place() -> None:
    assert (Settings().backup_hours, Settings(backup_dir="/backups").backup_hours) == (0, 24)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("recency_w=-1", "recency_w: Input should be greater than or equal to 0"),
        ("recency_w=nan", "recency_w: "),
        ("importance_w=101", "importance_w: "),
        ("recency_decay=0, mode=recent", "recency_decay: "),
        ("mode=RECENT", "mode: Input should be 'recent', 'elapsed' or 'stanford'"),
        ("recency_weight=3", "unknown option 'recency_weight': did you mean recency_w"),
        ("mode", "mode has no value; write mode=…"),
    ],
)
def test_defaults_of_agents_are_named_one_by_one_and_a_wrong_one_is_refused(
    given: str, problem: str, configure: Configure
) -> None:
    with pytest.raises(SettingsError, match=f"^JIYI_AGENT_DEFAULTS: {re.escape(problem)}"):
        configure(agent_defaults=given)
    settings = configure(agent_defaults="mode=elapsed, recency_w=100 recency_decay=1").agent_defaults
    assert (settings.mode, settings.recency_w, settings.recency_decay, settings.dedupe) == (
        "elapsed",
        100,
        1,
        "off",
    )
    assert configure(agent_defaults="").agent_defaults == AgentDefaults()


@pytest.mark.parametrize(
    ("given", "budgets"), [("", (0, 0)), ("500", (500, 0)), ("500/20.5", (500, 20.5)), ("/20", (0, 20))]
)
def test_a_budget_is_the_deployments_and_behind_a_slash_each_groups(
    given: str, budgets: tuple[float, float], configure: Configure
) -> None:
    assert configure(llm_budget=given).llm_budgets == budgets
