"""Which extra of the package brings a library that is not there: ``pip install 'isthmus[…]'``.

Libraries are imported where they are used, so that a bridge needs those of its own systems and no others.
"""

from __future__ import annotations

from typing import Final

from isthmus.errors import HardFailure

EXTRAS: Final = {
    "aiokafka": "bridge",
    "cramjam": "bridge",
    "confluent_kafka": "bridge",
    "google": "bridge",  # protobuf
    "ibmmq": "mq",
    "nats": "nats",
    "nkeys": "nats",
    "opentelemetry": "otel",
    "pandas": "bridge",
    "prometheus_client": "bridge",
    "pyarrow": "bridge",
    "pyspark": "bridge",
    "re2": "bridge",
    "scramp": "amqp",
    "starlette": "bridge",
    "uvicorn": "bridge",
    "wsproto": "amqp",
}
"""By the name that a library is imported by."""


def missing_extra(error: BaseException | None) -> HardFailure | None:
    """What to tell of an import that failed; None if it is not for want of an extra."""
    library = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if library not in EXTRAS:
        return None
    return HardFailure(f"{library} is not installed", remedy=f"pip install 'isthmus[{EXTRAS[library]}]'")
