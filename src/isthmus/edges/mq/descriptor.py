"""An MQ message: the MQMD with MQ's own names, typed properties, and the body.

Text has no trailing blanks here and bytes have no trailing zeros: both are what MQ fills its fixed fields
with. Leading zeros are part of a value. `Mqmd()` has MQ's defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.codecs.bridge_message import Property, PropertyType
from isthmus.errors import EncodeError

__all__ = ["FIELD_BYTES", "MqMessage", "Mqmd", "Property", "PropertyType"]

MQEI_UNLIMITED: Final = -1
MQPER_NOT_PERSISTENT: Final = 0
MQPER_PERSISTENT: Final = 1
MQPER_PERSISTENCE_AS_Q_DEF: Final = 2
MQPRI_PRIORITY_AS_Q_DEF: Final = -1
MQFMT_NONE: Final = ""
MQFMT_STRING: Final = "MQSTR"
MQMT_REQUEST: Final = 1
MQMT_DATAGRAM: Final = 8
MQMF_MSG_IN_GROUP: Final = 8
MQMF_LAST_MSG_IN_GROUP: Final = 16
MQENC_NATIVE: Final = 546
"""Little-endian integers and IEEE floats: what the machines are that this runs on."""
UTF8_CCSID: Final = 1208

FIELD_BYTES: Final = {
    "Format": 8,
    "MsgId": 24,
    "CorrelId": 24,
    "ReplyToQ": 48,
    "ReplyToQMgr": 48,
    "UserIdentifier": 12,
    "AccountingToken": 32,
    "ApplIdentityData": 32,
    "PutApplName": 28,
    "PutDate": 8,
    "PutTime": 8,
    "ApplOriginData": 4,
    "GroupId": 24,
}
"""How many bytes the MQMD has for each of its fields that is not a number."""


def _encoded(name: str, value: str | bytes) -> bytes:
    try:
        return value if isinstance(value, bytes) else value.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"{name} is not text that UTF-8 can carry") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mqmd:
    """The message descriptor, version 2. A value that its field has no room for is an `EncodeError`."""

    Version: int = 2
    Report: int = 0
    MsgType: int = MQMT_DATAGRAM
    Expiry: int = MQEI_UNLIMITED
    """Tenths of a second that the message has left."""
    Feedback: int = 0
    Encoding: int = MQENC_NATIVE
    CodedCharSetId: int = 0
    """0 is that of the queue manager."""
    Format: str = MQFMT_NONE
    Priority: int = MQPRI_PRIORITY_AS_Q_DEF
    Persistence: int = MQPER_PERSISTENCE_AS_Q_DEF
    MsgId: bytes = b""
    """Empty: the queue manager makes one."""
    CorrelId: bytes = b""
    BackoutCount: int = 0
    ReplyToQ: str = ""
    ReplyToQMgr: str = ""
    UserIdentifier: str = ""
    AccountingToken: bytes = b""
    ApplIdentityData: str = ""
    PutApplType: int = 0
    PutApplName: str = ""
    PutDate: str = ""
    """YYYYMMDD, in UTC."""
    PutTime: str = ""
    """HHMMSSTH, the last two being hundredths of a second."""
    ApplOriginData: str = ""
    GroupId: bytes = b""
    MsgSeqNumber: int = 1
    Offset: int = 0
    MsgFlags: int = 0
    OriginalLength: int = -1

    def __post_init__(self) -> None:
        for name, room in FIELD_BYTES.items():
            value = getattr(self, name)
            if not value:
                continue
            stripped = value.rstrip(b"\0") if isinstance(value, bytes) else value.rstrip(" \0")
            if len(_encoded(name, stripped)) > room:
                raise EncodeError(f"{name} has more than the {room} bytes that an MQMD has for it")
            object.__setattr__(self, name, stripped)
        for name in NUMBERS:
            if not -(2**31) <= getattr(self, name) < 2**31:
                raise EncodeError(f"{name} is out of range: {getattr(self, name)}")


FIELDS: Final = tuple(each.name for each in dataclasses.fields(Mqmd))
"""The names of the MQMD's 28 fields, in MQ's order."""

NUMBERS: Final = tuple(name for name in FIELDS if name not in FIELD_BYTES)

DEFAULTS: Final = Mqmd()


@dataclass(frozen=True, slots=True, kw_only=True)
class MqMessage:
    """A message as it is put or got."""

    descriptor: Mqmd = DEFAULTS
    body: bytes = b""
    properties: Mapping[str, Property] = field(default_factory=dict)
