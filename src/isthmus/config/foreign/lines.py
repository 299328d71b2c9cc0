"""Lines of a properties file, for importers: settings, and comments on what has become of others."""

from __future__ import annotations

import re
from typing import Final

from isthmus.config.syntax.hidden import hide, shown

_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def setting(key: str, value: str) -> str:
    """A setting of ours, escaped as Java properties need it and no more: people go on with the file."""
    escaped = "".join(_ESCAPES.get(each, each) for each in value)
    return f"{key}={chr(92) * escaped.startswith(' ')}{escaped}"


def left_out(key: str, value: str, reason: str) -> str:
    """A comment on a setting that has no equal here, or needs none. A secret is not repeated."""
    text = re.sub(r"\s+", " ", shown(hide(key, value))).strip()
    return f"# {key}={text}: {reason}"
