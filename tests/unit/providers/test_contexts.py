"""engine.providers.llms: how much a model reads, as servers say it."""

from __future__ import annotations

from typing import Any

from engine.providers.llms import context_in


def test_each_server_has_its_own_word_for_it() -> None:
    rows: list[tuple[dict[str, Any], int]] = [
        ({"id": "m", "max_model_len": 8_192}, 8_192),
        ({"id": "m", "meta": {"n_ctx_train": 131_072, "n_ctx": 4_096}}, 4_096),
        ({"id": "m", "max_context_length": 32_768, "loaded_context_length": 4_096}, 4_096),
        ({"id": "m", "context_length": "8192"}, 0),
        ({"id": "m", "n_ctx": 1}, 0),
        ({"id": "m"}, 0),
    ]
    for row, expected in rows:
        assert context_in({"data": [row]}, "m") == expected
        assert context_in({"data": [row]}, "the only one, by another name") == expected
        assert context_in({"data": [row, {"id": "other", "max_model_len": 512}]}, "other") == 512
        assert context_in({"data": [row, {"id": "other"}]}, "none of them") == 0
    no_lists: list[Any] = [None, [], "models", {"data": "m"}, {"data": [3]}, {"models": []}]
    for nothing in no_lists:
        assert context_in(nothing, "m") == 0
