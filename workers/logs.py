"""What a process writes, as lines for people or JSON (``JIYI_LOG_FORMAT``), and errors for a tracker.

Neither quotes words that may be somebody's: ``engine.operations.install`` cleans each record first.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from engine import operations
from jiyi import tracing
from jiyi.errors import SettingsError
from jiyi.extras import install_command
from jiyi.settings import get_settings

_own = logging.getLogger("jiyi.process")
#: For people, of processes that nobody else gives a form.
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Where Sentry, or what speaks its protocol, is: its SDK's own variable.
TRACKER = "SENTRY_DSN"
#: How long a process that ends waits for its last reports to be sent, in seconds: an error that ends it is
#: among them.
LAST_REPORTS_SECONDS = 10


class JsonLines(logging.Formatter):
    """A record as one JSON object; ``trace_id``, ``span_id`` and ``error`` where there are any."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
        }
        if (ids := tracing.ids()) is not None:
            fields["trace_id"], fields["span_id"] = ids
        if record.exc_info and not record.exc_text and record.exc_info[1] is not None:
            record.exc_text = operations.trace_of(record.exc_info[1])
        if record.exc_text:
            fields["error"] = record.exc_text
        return json.dumps(fields, ensure_ascii=False)


def install(process: str, least: int = logging.INFO) -> None:
    """Give this process its log, from level ``least`` on. Raises :class:`SettingsError`."""
    operations.install()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(process) if as_json() else logging.Formatter(TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    _own.setLevel(logging.INFO)
    logging.captureWarnings(capture=as_json())
    track_errors(process)


def as_json() -> bool:
    """Whether a line of the log is a JSON object."""
    return get_settings().log_format == "json"


def track_errors(process: str) -> None:
    """Send logged errors to Sentry, if ``SENTRY_DSN`` is set. Raises :class:`SettingsError`."""
    if not os.environ.get(TRACKER):
        return
    try:
        import sentry_sdk
        from sentry_sdk.integrations.atexit import AtexitIntegration
        from sentry_sdk.integrations.logging import LoggingIntegration
        from sentry_sdk.utils import BadDsn
    except ImportError:
        hint = install_command("sentry")
        problem = f"{TRACKER} asks for an error tracker, but its SDK is not installed: {hint}"
        raise SettingsError(problem) from None
    try:
        sentry_sdk.init(
            release=f"jiyi@{version('jiyi')}",
            server_name=process,
            before_send=discreet,
            # What these would add quotes: statements, requests, values of variables, lines of the log before
            # the error.
            auto_enabling_integrations=False,
            default_integrations=False,
            integrations=[
                LoggingIntegration(level=None, event_level=logging.ERROR),
                AtexitIntegration(lambda *_: None),  # the log has its own lines of what is still to be sent
            ],
            shutdown_timeout=LAST_REPORTS_SECONDS,
            max_breadcrumbs=0,
            include_local_variables=False,
            max_request_body_size="never",
            send_default_pii=False,
        )
    except BadDsn as error:
        raise SettingsError(f"{TRACKER}: {error}") from None


def discreet(event: Any, hint: Any) -> Any:
    """A report without the words of errors; with the trace that it was a part of."""
    error = hint["exc_info"][1] if hint.get("exc_info") else None
    words: dict[str, str] = {}
    while error is not None and type(error).__name__ not in words:
        words[type(error).__name__] = operations.caller_of(error)
        error = error.__cause__ or error.__context__
    for exception in event.get("exception", {}).get("values", []):
        exception["value"] = words.get(exception.get("type", ""), "")
    if (ids := tracing.ids()) is not None:
        event.setdefault("contexts", {})["trace"] = dict(zip(("trace_id", "span_id"), ids, strict=True))
    return event


def say(line: str) -> None:
    """Write a line for the person who starts the process."""
    if as_json():
        _own.info(line)
    else:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
