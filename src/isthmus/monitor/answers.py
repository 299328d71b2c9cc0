"""Documents as answers."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from starlette.responses import Response


def encode(document: Any) -> bytes:
    """As JSON. What is no text, as a text that was cut in two, is replaced."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def json_answer(document: Any, status: int = HTTPStatus.OK) -> Response:
    """A document as an answer."""
    return Response(encode(document), status, media_type="application/json")
