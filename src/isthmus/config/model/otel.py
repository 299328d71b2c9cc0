"""OpenTelemetry: where spans of sampled messages go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from isthmus.config.model import values
from isthmus.config.model.section import Section, setting
from isthmus.config.syntax.hidden import Hidden, Options

_SIGNAL_PATH = "/v1/traces"


def collector_url(value: object) -> str:
    """The URL of a collector; one without a path has the path that OTLP gives traces."""
    if isinstance(value, str):
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query):
            return value if parts.path.strip("/") else f"{value.rstrip('/')}{_SIGNAL_PATH}"
    raise ValueError("expected a URL such as http://collector:4318, without user or password")


def secret_headers(value: object) -> Options:
    """Headers of requests, by name: whatever they are called, what they say is shown nowhere."""
    given = values.options(value)
    return Options({name: each if isinstance(each, Hidden) else Hidden(each) for name, each in given.items()})


class OtelSettings(Section):
    """How spans are exported: not at all without an endpoint."""

    endpoint: Annotated[str, collector_url] | None = setting(
        "endpoint",
        None,
        "where spans of sampled messages are exported to, by OTLP over HTTP: `http://collector:4318`; "
        "needs the extra `otel`",
    )
    headers: Annotated[Mapping[str, str], secret_headers] = setting(
        "headers.*",
        Options(),
        "headers of these requests, such as `otel.headers.authorization`; none of them is shown anywhere",
    )
    service_name: Annotated[str, values.text] | None = setting(
        "service-name", None, "what the bridge is called in traces", default_text="bridge.id"
    )
