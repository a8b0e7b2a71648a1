"""Loads OpenTelemetry into a process if its standard variables ask for traces; else imports nothing."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

from jiyi.errors import SettingsError
from jiyi.extras import install_command

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

#: Any of these asks for traces.
ASKING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
EXPORTER, PROTOCOL = "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"
HTTP = "http/protobuf"


def is_enabled() -> bool:
    """Whether the environment asks for traces."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get(EXPORTER) == "none":
        return False
    return any(os.environ.get(name) for name in ASKING)


def install(process: str) -> None:
    """Trace this process if enabled: after any fork, before the first connection to the database.

    Raises :class:`SettingsError`: an unknown protocol, or packages are not installed.
    """
    if not is_enabled():
        return
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from jiyi.tracing import MOST_LINKS

        exporter = _exporter()
    except ImportError as error:
        variable = next(name for name in ASKING if os.environ.get(name))
        raise SettingsError(
            f"{variable} asks for traces, but OpenTelemetry is not installed ({error}):"
            f" {install_command('otel')}"
        ) from None
    names = {"service.name": f"jiyi-{process}", "service.namespace": "jiyi"}
    resource = Resource.create({**names, "service.version": version("jiyi")})
    configured = Resource.create()  # what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say counts
    if not str(configured.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(configured)
    provider = TracerProvider(resource=resource, span_limits=SpanLimits(max_links=MOST_LINKS))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter() -> SpanExporter:
    name = os.environ.get(EXPORTER) or "otlp"
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(PROTOCOL) or HTTP
    if name != "otlp":
        raise SettingsError(f"{EXPORTER}: {name!r} is not known here; otlp, console or none")
    if protocol != HTTP:
        supported = f"{HTTP}, which every collector takes at port 4318"
        raise SettingsError(f"{PROTOCOL}: {protocol!r} is not supported here; {supported}")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
