"""jiyi.protocol.wire.signatures: what is signed survives the way, and anything else does not pass for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jiyi.protocol.wire.signatures import (
    AT_HEADER,
    CALL_LABEL,
    KEY_HEADER,
    SERVICE,
    SIGNATURE_HEADER,
    call_signature,
    new_key,
    service_call_key,
    sign,
    signer_of,
)
from jiyi.settings import Settings

SECRET = "a secret of the service, long enough"
ARGS: list[Any] = [
    "id",
    {"group_id": "书", "weights": [0.1, 1.0, 1e-7], "top_k": 30, "text": '\ud800 " \\ \n é', "nothing": None},
]


def test_a_signature_survives_json_however_it_is_written() -> None:
    key = service_call_key(SECRET)
    made = call_signature(key, "rpc.agents.list", "1.5", ARGS, {"actor": "key:x"})
    for options in ({}, {"ensure_ascii": False}, {"indent": 2, "sort_keys": True}):
        args, named = json.loads(json.dumps([ARGS, {"actor": "key:x"}], **options))  # type: ignore[arg-type]
        assert call_signature(key, "rpc.agents.list", "1.5", tuple(args), named) == made


def test_any_change_is_another_call() -> None:
    key, name = service_call_key(SECRET), "rpc.agents.list"
    mine = call_signature(key, name, "1.5", ARGS, {})
    others: list[tuple[str, str, list[Any], dict[str, Any]]] = [
        ("rpc.agents.get", "1.5", ARGS, {}),
        (name, "1.6", ARGS, {}),
        (name, "1.5", ["di", ARGS[1]], {}),
        (name, "1.5", [ARGS[0], {**ARGS[1], "group_id": "other"}], {}),
        (name, "1.5", ARGS, {"actor": "user:mia"}),
    ]
    assert all(call_signature(key, *other) != mine for other in others)


def test_the_key_comes_before_the_service_and_nobody_signs_without_either() -> None:
    key, settings = new_key(), Settings(secret_key=SECRET)
    signer = signer_of(settings, key)
    assert signer is not None
    assert signer.key_id == key.key_id
    service = signer_of(settings)
    assert service is not None
    headers = service.headers("rpc.agents.list", ARGS, {})
    assert headers.keys() == {KEY_HEADER, AT_HEADER, SIGNATURE_HEADER}
    assert headers[KEY_HEADER] == SERVICE
    assert signer_of(Settings(secret_key="")) is None
    assert SECRET not in repr(service)
    assert key.signing_key.hex() not in repr(signer)


def test_no_message_of_events_passes_for_a_call() -> None:
    """What is signed of a call begins with a label that no JSON begins with, so one signature is never
    both.
    """
    key = new_key()
    content = json.dumps(["t", "1", [], {}], separators=(",", ":")).encode()
    assert call_signature(key.signing_key, "t", "1", [], {}) == sign(key.signing_key, CALL_LABEL + content)
    assert call_signature(key.signing_key, "t", "1", [], {}) != sign(key.signing_key, content)
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(CALL_LABEL + content)


def test_a_home_s_secret_is_found_by_its_owner_s_programs(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JIYI_HOME", str(tmp_path))
    monkeypatch.delenv("JIYI_SECRET_KEY", raising=False)
    assert signer_of(Settings()) is None
    (tmp_path / "secret_key").write_text(f"{SECRET}\n", encoding="ascii")
    assert Settings().secret_key.get_secret_value() == SECRET
    monkeypatch.setenv("JIYI_SECRET_KEY", "chosen" * 8)
    assert Settings().secret_key.get_secret_value() == "chosen" * 8
