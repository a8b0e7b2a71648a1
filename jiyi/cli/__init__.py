"""The command line, ``jiyi``: a thin shell around :class:`jiyi.Client` (``docs/client.md``)."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Any

import jiyi

INTERRUPTED = 130  # what shells expect after Ctrl-C: 128 + SIGINT.


def _show(message: Warning | str, category: type[Warning], *_where: Any) -> None:
    """A warning in one line; where in our code it was given helps nobody."""
    sys.stderr.write(
        f"jiyi: {message}\n"
        if category.__module__.startswith("jiyi.")
        else f"{category.__name__}: {message}\n"
    )


def main() -> None:
    """Run the command in ``sys.argv`` and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that is not UTF-8 shows escapes, no traceback
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:2] == ["hook"]:  # a host waits for it: nothing else is loaded
        from jiyi.cli import hook

        sys.exit(hook.main(sys.argv[2:]))
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"jiyi {jiyi.__version__}\n")
        return
    warnings.showwarning = _show  # type: ignore[assignment]
    try:
        from jiyi.cli.app import app  # here, so that Ctrl-C while it loads is answered quietly too

        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`). Nothing may be flushed there again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
