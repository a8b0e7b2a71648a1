"""jiyi.settings: where a setting comes from, and what is said about a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jiyi.errors import SettingsError
from jiyi.settings import FIRST, SECTIONS, Settings, UnknownSetting, documentation, get_settings, unknown_variables

ROOT = Path(__file__).resolve().parents[2]

Configure = Callable[..., Settings]


def leave_addresses(home: Path, text: str) -> None:
    """What a running embedded copy leaves in its home."""
    (home / "run").mkdir()
    (home / "run" / "jiyi.env").write_text(text, encoding="utf-8")


FREE = set(
    "backup_dir broker_url database_url embedder_api_key home jobs_off key llm llm_api_key llm_base_url llm_prices heads_weights "
    "oidc_file private_hosts redis_url reranker reranker_api_key secret_key store_roots web_host web_hosts web_search_api_key".split()
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
        ("recency_w", -0.1, 0),
        ("recency_w", "nan", 0),
        ("importance_w", 101, 100),
        ("recency_decay", 0, 1),
        ("recency_decay", 1.01, 1),
        ("request_timeout", 0, 1),
        ("jobs_off", "a;b", "archive"),
        ("embed_batch", 2.5, 2),
        ("mode", "RECENT", "stanford"),
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
    with pytest.raises(SettingsError, match=r"JIYI_WEB_PORT: .*; JIYI_RECENCY_W: "):
        configure(recency_w="no")


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
def test_an_address_that_is_set_is_given_and_a_missing_one_says_what_to_do(name: str, configure: Configure, tmp_path: Path) -> None:
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
        assert configure(database_url=f"{scheme}://u:p@h/d?sslmode=require").database_url == "postgresql+psycopg://u:p@h/d?sslmode=require"
    monkeypatch.delenv("JIYI_DATABASE_URL")
    monkeypatch.setenv("DATABASE_URL", "postgresql://theirs")
    (tmp_path / "postgres").mkdir()  # an embedded copy that does not run
    assert configure().database_url == ""


def test_the_documentation_is_printed_whatever_is_set_here() -> None:
    environment = os.environ | {"JIYI_GROUP": "mine", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "jiyi.settings"], env=environment, capture_output=True, check=True, timeout=200)
    assert done.stdout == documentation().encode()


def test_the_documentation_has_a_row_for_every_setting_in_a_section_that_there_is() -> None:
    rows = [line for line in documentation().splitlines() if line.startswith("| `JIYI_")]
    names = [row.split("`")[1].removeprefix("JIYI_").lower() for row in rows]
    assert names == [*FIRST, *(name for name in Settings.model_fields if name not in FIRST)]
    assert "| `JIYI_WEB_PORT` | `8765` | integer 1–65,535 | " in documentation()
    assert "| `JIYI_DEDUPE` | `off` | `off` or `exact` | " in documentation()
    assert "| `JIYI_RECENCY_DECAY` | `0.99` | number >0–1 | " in documentation()
    assert "| `JIYI_HOME` | the user's data directory | path | " in documentation()
    assert all(field.description and field.description.endswith(".") for field in Settings.model_fields.values())
    assert SECTIONS.keys() <= Settings.model_fields.keys() - set(FIRST)
    assert documentation().count("\n## ") == 1 + len(SECTIONS)


def test_a_variable_that_is_no_setting_is_warned_about_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIYI_RECENCY_WEIGHT", "3")
    get_settings.cache_clear()
    with pytest.warns(UnknownSetting, match="^unknown setting 'JIYI_RECENCY_WEIGHT': did you mean JIYI_RECENCY_W; it has no effect$"):
        get_settings()
    assert unknown_variables({"JIYI_GROUP": "g", "PATH": "", "JIYI_SHARED_DATA": "x"}) == []
    get_settings.cache_clear()


@pytest.mark.parametrize(
    ("given", "hours"), [({}, 0), ({"backup_dir": "/backups"}, 24), ({"backup_dir": "/backups", "backup_hours": 0}, 0)]
)
def test_backups_are_on_where_they_have_a_place_unless_it_is_said(given: dict[str, Any], hours: int) -> None:
    assert Settings(**given).backup_hours == hours
