"""The build. Everything that does not need code to be said is in pyproject.toml.

The modules that every message passes through are compiled when mypyc and a C compiler are there. Without
either, or with ISTHMUS_PURE_PYTHON=1, the package is plain Python and does the same.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup

HOT_MODULES = {
    "codecs/amqp": ("constructors", "reader", "writer", "boundary", "decoder", "encoder", "indexer"),
    "codecs/bridge_message": ("canonical", "message"),
    "codecs/jms": ("headers", "ids", "kinds", "outgoing"),
    "converters": ("annotations", "jms", "jms_fast_path"),
    "edges/amqp/protocol": ("connection", "frames", "link", "session", "transfers"),
    "edges/amqp/server/receivers": ("budget", "outgoing_link", "queue", "record_source", "waiting"),
    "journal": ("fast_path", "layout"),
    "kafka": ("records",),
}
"""What every message passes through, by folder."""


def hot_extensions() -> list[Extension]:
    """The compiled modules; none where they cannot be had. An error in their types still ends the build."""
    if os.environ.get("ISTHMUS_PURE_PYTHON", "") not in ("", "0"):
        return []
    try:
        import msgspec  # noqa: F401  # the compiler reads its types
        from mypyc.build import mypycify
    except ImportError as error:
        sys.stderr.write(f"isthmus: {error}, so the package stays plain Python\n")
        return []
    extensions: list[Extension] = mypycify(
        [
            "--config-file=",  # the project's own has plugins that a build does not need
            "--ignore-missing-imports",  # a build has but what it needs, and not what a bridge runs with
            *[f"src/isthmus/{folder}/{name}.py" for folder, names in HOT_MODULES.items() for name in names],
        ],
        group_name="isthmus",
    )
    for extension in extensions:
        extension.optional = True  # where there is no C compiler, the build goes on without
    return extensions


setup(ext_modules=hot_extensions())
