"""jiyi.settings: where a setting comes from, and what is said about a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_value_out_of_bounds_is_refused_and_one_at_its_bound_accepted(configure: Configure) -> None:
    for name, value, bound in (
        ("web_port", 65_536, 65_535),
        ("group", "", "组"),
        ("index_max_nodes", 9, 10),
        ("request_timeout", 0, 1),
        ("jobs_off", "a;b", "archive"),
        ("embed_batch", 2.5, 2),
        ("retrieval_shards", "", 1),
    ):
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
def test_14_an_address_comes_from_us_a_running_copy_or_another_programs_variable_else_it_is_asked_for(
    name: Any, configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable = f"JIYI_{name.upper()}"
    with pytest.raises(SettingsError) as caught:
        configure().need(name)
    assert all(part in str(caught.value) for part in (str(tmp_path), variable, "jiyi up"))
    if name != "broker_url":
        monkeypatch.setenv(name.upper(), "scheme://theirs")
        assert configure().need(name) == "scheme://theirs"
    leave_addresses(tmp_path, f"{variable}=scheme://the-running-copy\n")
    assert getattr(configure(), name) == "scheme://the-running-copy"
    assert configure(**{name: "scheme://ours"}).need(name) == "scheme://ours"


def test_14_a_database_may_be_named_as_others_name_it_but_theirs_is_not_ours(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        settings = configure(database_url=f"{scheme}://u:p@h/d?sslmode=require")
        assert settings.database_url == "postgresql+psycopg://u:p@h/d?sslmode=require"
    monkeypatch.delenv("JIYI_DATABASE_URL")
    monkeypatch.setenv("DATABASE_URL", "postgresql://theirs")
    (tmp_path / "postgres").mkdir()  # an embedded copy that does not run
    assert configure().database_url == ""


def test_what_has_a_form_of_its_own_is_shown_in_it_and_examples_are_of_their_form(
    configure: Configure,
) -> None:
    for name, field in Settings.model_fields.items():
        for example in field.examples or []:
            configure(**{name: example})
    for name, value, form in (
        ("llm_budget", "abc", "'500' or '500/20' or '/20'"),
        ("reranker", "compatible:x", "'off' or "),
        ("rate_limit", "fast", "'100/second'"),
    ):
        sentence = rf"JIYI_{name.upper()}: is not of its form; write it like {form}.*got '{value}'"
        with pytest.raises(SettingsError, match=sentence):
            configure(**{name: value})


def test_the_documentation_has_a_row_for_every_setting_in_a_section_that_there_is() -> None:
    rows = [line for line in documentation().splitlines() if line.startswith("| `JIYI_")]
    names = [row.split("`")[1].removeprefix("JIYI_").lower() for row in rows]
    assert names == [*FIRST, *(name for name in Settings.model_fields if name not in FIRST)]
    for row in (
        "| `JIYI_WEB_PORT` | `8765`; 1–65,535 | ",
        "| `dedupe` | `off`; `exact` | ",
        "| `recency_decay` | `0.99`; >0–1 | ",
        "| `JIYI_HOME` | the user's data directory | ",
    ):
        assert row in documentation()
    descriptions = [field.description or "" for field in Settings.model_fields.values()]
    assert all(description.endswith(".") for description in descriptions)
    assert SECTIONS.keys() <= Settings.model_fields.keys() - set(FIRST)
    assert documentation().count("\n## ") == 1 + len(SECTIONS)


def test_a_variable_that_is_no_setting_is_warned_about_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JIYI_LLM_TIMEOUTS", "3")
    get_settings.cache_clear()
    meant = "^unknown setting 'JIYI_LLM_TIMEOUTS': did you mean JIYI_LLM_TIMEOUT; it has no effect$"
    with pytest.warns(UnknownSetting, match=meant):
        get_settings()
    get_settings.cache_clear()
    assert unknown_variables({"JIYI_GROUP": "g", "PATH": "", "JIYI_SHARED_DATA": "x"}) == []
    assert unknown_variables({"JIYI_RECENCY_W": "2"}) == [
        "unknown setting 'JIYI_RECENCY_W': write JIYI_AGENT_DEFAULTS=recency_w=…; it has no effect"
    ]


def test_backups_are_made_daily_where_they_have_a_place() -> None:
    assert (Settings().backup_hours, Settings(backup_dir="/backups").backup_hours) == (0, 24)


def test_defaults_of_agents_are_named_one_by_one_and_a_wrong_one_is_refused(configure: Configure) -> None:
    for given, problem in {
        "recency_w=-1": "recency_w: Input should be greater than or equal to 0",
        "recency_w=nan": "recency_w: ",
        "importance_w=101": "importance_w: ",
        "recency_decay=0, mode=recent": "recency_decay: ",
        "mode=RECENT": "mode: Input should be 'recent', 'elapsed' or 'stanford'",
        "recency_weight=3": "unknown option 'recency_weight': did you mean recency_w",
        "mode": "mode has no value; write mode=…",
    }.items():
        with pytest.raises(SettingsError, match=f"^JIYI_AGENT_DEFAULTS: {re.escape(problem)}"):
            configure(agent_defaults=given)
    set_to = configure(agent_defaults="mode=elapsed, recency_w=100 recency_decay=1").agent_defaults
    assert (set_to.mode, set_to.recency_w, set_to.recency_decay, set_to.dedupe) == ("elapsed", 100, 1, "off")
    assert configure(agent_defaults="").agent_defaults == AgentDefaults()


def test_a_budget_is_the_deployments_and_behind_a_slash_each_groups(configure: Configure) -> None:
    for given, budgets in {"": (0, 0), "500": (500, 0), "500/20.5": (500, 20.5), "/20": (0, 20)}.items():
        assert configure(llm_budget=given).llm_budgets == budgets
