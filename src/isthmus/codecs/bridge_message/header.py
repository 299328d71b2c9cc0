"""The header of a bridge message: the fields of an MQMD, and the channel to reply to.

A field that has its zero (0, no text, no bytes) is not written; one that was not there reads as its zero.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from isthmus.codecs.bridge_message.checked import CheckedStruct
from isthmus.errors import EncodeError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]

_CODEC_NAMES = {
    "msg_type": "type",
    "expiry": "exp",
    "feedback": "feed",
    "encoding": "enc",
    "coded_char_set_id": "charset",
    "persistence": "persist",
    "correl_id": "corr_id",
    "backout_count": "backout",
    "reply_to_q": "rep_q",
    "reply_to_q_mgr": "rep_qmgr",
    "user_identifier": "user_id",
    "accounting_token": "acct_token",
    "appl_identity_data": "appl_id",
    "put_appl_type": "appl_type",
    "put_appl_name": "appl_name",
    "put_date": "date",
    "put_time": "time",
    "appl_origin_data": "appl_orig_data",
    "group_id": "grp_id",
    "msg_seq_number": "seq",
    "msg_flags": "flags",
    "original_length": "orig_length",
}


class BridgeHeader(
    CheckedStruct,
    rename=_CODEC_NAMES,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The 29 fields, named like those of the MQMD and in the order in which the Go helper writes them.

    Setting a field to a value that it cannot carry raises `EncodeError`.
    """

    version: Int32 = 0
    report: Int32 = 0
    msg_type: Int32 = 0
    expiry: Int32 = 0
    feedback: Int32 = 0
    encoding: Int32 = 0
    coded_char_set_id: Int32 = 0
    format: str = ""
    priority: Int32 = 0
    persistence: Int32 = 0
    msg_id: bytes = b""
    correl_id: bytes = b""
    backout_count: Int32 = 0
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""
    user_identifier: str = ""
    accounting_token: bytes = b""
    appl_identity_data: str = ""
    put_appl_type: Int32 = 0
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""
    appl_origin_data: str = ""
    group_id: bytes = b""
    msg_seq_number: Int32 = 0
    offset: Int32 = 0
    msg_flags: Int32 = 0
    original_length: Int32 = 0
    reply_to_channel: str = ""

    @staticmethod
    def fit(name: str, value: Any) -> Any:
        """The value as the field of that name holds it. Raises `EncodeError` if it cannot be written."""
        kind = KINDS.get(name)
        if kind is int:
            if isinstance(value, int) and not isinstance(value, bool):
                if -(2**31) <= value < 2**31:
                    return int(value)
                raise EncodeError(
                    f"{value} is out of range for header field {name}: -2147483648 to 2147483647"
                )
        # Of what is empty, msgspec leaves out only the very object that is the default.
        elif kind is str:
            if isinstance(value, str):
                return str(value) or ""
        elif kind is bytes and isinstance(value, bytes | bytearray | memoryview):
            return bytes(value) or b""
        if kind is None:
            return value  # the struct itself refuses fields that it does not have
        raise EncodeError(f"header field {name} takes {kind.__name__}, not {type(value).__name__}")


FIELDS: Final = msgspec.structs.fields(BridgeHeader)

KINDS: Final[dict[str, type]] = {field.name: type(field.default) for field in FIELDS}
"""What each field carries: int, str or bytes."""
