"""From an AMQP message to a Kafka record and back: one module a form, each with its Spark form in `columns`.

=========  ==============================================================================================
`default`  the body alone
`json`     a JSON document with the properties, annotations and body, and with the types of all values
`raw`      the encoded message, byte for byte
`jms`      the body, with the headers and properties of JMS as Kafka headers
=========  ==============================================================================================

Each has the two functions of `MessageConverter`, so that the module itself is a converter. `converter` finds
one by its name. ``docs/converters.md`` says what becomes of every type and section.
"""

from typing import TYPE_CHECKING

from isthmus.deferred import deferred

if TYPE_CHECKING:
    from isthmus.converters import default, jms, json, raw
    from isthmus.converters.contract import KafkaRecord, MessageConverter, NoBody, ReceivedRecord
    from isthmus.converters.registry import converter

__all__ = [
    "KafkaRecord",
    "MessageConverter",
    "NoBody",
    "ReceivedRecord",
    "converter",
    "default",
    "jms",
    "json",
    "raw",
]

__getattr__ = deferred(
    __name__,
    {
        "isthmus.converters.contract": ("KafkaRecord", "MessageConverter", "NoBody", "ReceivedRecord"),
        "isthmus.converters.default": ("",),
        "isthmus.converters.jms": ("",),
        "isthmus.converters.json": ("",),
        "isthmus.converters.raw": ("",),
        "isthmus.converters.registry": ("converter",),
    },
)
