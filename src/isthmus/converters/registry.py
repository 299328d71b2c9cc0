"""Converters by the name that a configuration calls them.

The built-in ones also answer to the names that the AMQP-Kafka bridge of old gave them, with or without the
package that it had at the time: ``JsonMessageConverter``, ``io.strimzi.kafka.bridge.amqp.converter.…``.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from isthmus.errors import ConfigError

if TYPE_CHECKING:
    from isthmus.converters.contract import MessageConverter

_STATELESS: Final = ("default", "raw", "jms")

BUILT_IN: Final = ("default", "json", "raw", "jms")
"""The names of the converters that are there already."""

BODY_FORMS: Final = ("jms", "default")
"""The converters whose value is the body."""

DESTINATION: Final = "destination"
"""What routes call the form of a JMS destination. It is no converter that a configuration can name."""

_NAME_OF_OLD: Final = re.compile(
    r"(?:(?:io\.strimzi|io\.rhiot|io\.ppatierno|enmasse)\.kafka\.bridge\.(?:amqp\.)?(?:converter\.)?)?"
    r"(?:Amqp)?(Default|Json|Raw)MessageConverter"
)


def canonical_name(name: str) -> str:
    """Our name of a built-in converter, whatever it is called; any other name as it is."""
    old = _NAME_OF_OLD.fullmatch(name)
    return old[1].lower() if old else name


def look_in(folder: Path) -> None:
    """Find users' classes in the modules of this folder too: here, and in processes that are started later.

    It is asked last, so that no file in it takes the place of a module that is installed.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if place not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*inherited, place])


def converter(name: str, **arguments: Any) -> MessageConverter:
    """The converter of a name: a built-in one, or a new object of the class ``package.module:Class``.

    Whatever such a class raises is a `SoftFailure`. The arguments are the class's own; of the built-in ones
    only ``json`` takes any: ``compat``. Raises `ConfigError` for a name that leads to no converter.
    """
    name = canonical_name(name)
    if name in _STATELESS and not arguments:
        return cast("MessageConverter", import_module(f"isthmus.converters.{name}"))
    make = _find("isthmus.converters.json:JsonConverter" if name == "json" else name)
    try:
        made = make(**arguments)
    except Exception as error:
        raise ConfigError(f"the converter {name} cannot be made: {_said(error)}") from error
    missing = [
        method
        for method in ("to_kafka_record", "to_amqp_message")
        if not callable(getattr(made, method, None))
    ]
    if missing:
        raise ConfigError(f"{name} is not a converter: it has no {' and no '.join(missing)}")
    if name == "json":
        return cast("MessageConverter", made)
    from isthmus.converters.own import OwnConverter

    return OwnConverter(made)


def _find(name: str) -> Any:
    """The class that a name stands for."""
    module_name, colon, class_name = name.partition(":")
    if name in _STATELESS:
        raise ConfigError(f"the converter {name} takes no arguments")
    if not colon or not module_name or not class_name.isidentifier():
        raise ConfigError(
            f"{name!r} is not a converter: there are {', '.join(BUILT_IN)}, and package.module:Class"
        )
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever a module of others does when it is imported
        raise ConfigError(f"the converter {name} cannot be imported: {_said(error)}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise ConfigError(f"the converter {name} cannot be found: {module_name} has no class {class_name}")
    return found


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
