"""MQ's reason codes: their names, and what the edge makes of each.

Every failure of a call is one `MqError`. Its `Outcome` is all that intake and delivery go by, and the table
in ``docs/mq.md`` is made of the same entries. A reason that is not in the table is `Outcome.REFUSED`:
somebody should look at it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from isthmus.errors import MqError


class Outcome(StrEnum):
    """What a failed call means for the one who made it."""

    GONE = "connection gone"
    """The connection is of no use any more: connect again. What was not committed is backed out by MQ."""
    LATER = "try later"
    """The connection is sound, the call may succeed later: back out, wait, try again."""
    EMPTY = "no message"
    """Nothing is wrong: there is no message to get."""
    MESSAGE = "this message only"
    """This message, or its destination, will not do; others may."""
    REFUSED = "refused"
    """An operator has to change something: a name, an authority, a definition."""


class Reason(NamedTuple):
    """A reason code that the edge knows."""

    name: str
    outcome: Outcome


NO_MSG_AVAILABLE = 2033
CONNECTION_BROKEN = 2009
BACKED_OUT = 2003
NOT_AUTHORIZED = 2035
UNKNOWN_OBJECT_NAME = 2085
Q_FULL = 2053
MSG_TOO_BIG_FOR_Q = 2030
MSG_TOO_BIG_FOR_Q_MGR = 2031
MSG_TOO_BIG_FOR_CHANNEL = 2218
Q_MGR_NOT_AVAILABLE = 2059
Q_MGR_NAME_ERROR = 2058
PUT_INHIBITED = 2051
GET_INHIBITED = 2016
SUBSCRIPTION_IN_USE = 2429
TOPIC_STRING_ERROR = 2425
HCONN_ERROR = 2018
HOBJ_ERROR = 2019
PERSISTENT_NOT_ALLOWED = 2048
PRIORITY_EXCEEDS_MAXIMUM = 2049
PROPERTY_NAME_ERROR = 2442
PROPERTY_VALUE_TOO_BIG = 2469
PROPERTY_NOT_AVAILABLE = 2471
SYNCPOINT_LIMIT_REACHED = 2024

OVERSIZE = frozenset({MSG_TOO_BIG_FOR_Q, MSG_TOO_BIG_FOR_Q_MGR, MSG_TOO_BIG_FOR_CHANNEL})

REASONS = {
    BACKED_OUT: Reason("BACKED_OUT", Outcome.LATER),
    CONNECTION_BROKEN: Reason("CONNECTION_BROKEN", Outcome.GONE),
    2013: Reason("EXPIRY_ERROR", Outcome.MESSAGE),
    2014: Reason("FEEDBACK_ERROR", Outcome.MESSAGE),
    GET_INHIBITED: Reason("GET_INHIBITED", Outcome.LATER),
    HCONN_ERROR: Reason("HCONN_ERROR", Outcome.GONE),
    HOBJ_ERROR: Reason("HOBJ_ERROR", Outcome.GONE),
    SYNCPOINT_LIMIT_REACHED: Reason("SYNCPOINT_LIMIT_REACHED", Outcome.LATER),
    2026: Reason("MD_ERROR", Outcome.MESSAGE),
    2027: Reason("MISSING_REPLY_TO_Q", Outcome.MESSAGE),
    2029: Reason("MSG_TYPE_ERROR", Outcome.MESSAGE),
    MSG_TOO_BIG_FOR_Q: Reason("MSG_TOO_BIG_FOR_Q", Outcome.MESSAGE),
    MSG_TOO_BIG_FOR_Q_MGR: Reason("MSG_TOO_BIG_FOR_Q_MGR", Outcome.MESSAGE),
    NO_MSG_AVAILABLE: Reason("NO_MSG_AVAILABLE", Outcome.EMPTY),
    NOT_AUTHORIZED: Reason("NOT_AUTHORIZED", Outcome.REFUSED),
    2042: Reason("OBJECT_IN_USE", Outcome.LATER),
    2047: Reason("PERSISTENCE_ERROR", Outcome.MESSAGE),
    PERSISTENT_NOT_ALLOWED: Reason("PERSISTENT_NOT_ALLOWED", Outcome.MESSAGE),
    PRIORITY_EXCEEDS_MAXIMUM: Reason("PRIORITY_EXCEEDS_MAXIMUM", Outcome.MESSAGE),
    2050: Reason("PRIORITY_ERROR", Outcome.MESSAGE),
    PUT_INHIBITED: Reason("PUT_INHIBITED", Outcome.LATER),
    2052: Reason("Q_DELETED", Outcome.MESSAGE),
    Q_FULL: Reason("Q_FULL", Outcome.LATER),
    2056: Reason("Q_SPACE_NOT_AVAILABLE", Outcome.LATER),
    Q_MGR_NAME_ERROR: Reason("Q_MGR_NAME_ERROR", Outcome.REFUSED),
    Q_MGR_NOT_AVAILABLE: Reason("Q_MGR_NOT_AVAILABLE", Outcome.GONE),
    2061: Reason("REPORT_OPTIONS_ERROR", Outcome.MESSAGE),
    2082: Reason("UNKNOWN_ALIAS_BASE_Q", Outcome.MESSAGE),
    UNKNOWN_OBJECT_NAME: Reason("UNKNOWN_OBJECT_NAME", Outcome.MESSAGE),
    2086: Reason("UNKNOWN_OBJECT_Q_MGR", Outcome.MESSAGE),
    2087: Reason("UNKNOWN_REMOTE_Q_MGR", Outcome.MESSAGE),
    2102: Reason("RESOURCE_PROBLEM", Outcome.LATER),
    2110: Reason("FORMAT_ERROR", Outcome.MESSAGE),
    2124: Reason("OUTCOME_PENDING", Outcome.GONE),
    2152: Reason("OBJECT_NAME_ERROR", Outcome.MESSAGE),
    2161: Reason("Q_MGR_QUIESCING", Outcome.GONE),
    2162: Reason("Q_MGR_STOPPING", Outcome.GONE),
    2192: Reason("STORAGE_MEDIUM_FULL", Outcome.LATER),
    2195: Reason("UNEXPECTED_ERROR", Outcome.GONE),
    2202: Reason("CONNECTION_QUIESCING", Outcome.GONE),
    2203: Reason("CONNECTION_STOPPING", Outcome.GONE),
    MSG_TOO_BIG_FOR_CHANNEL: Reason("MSG_TOO_BIG_FOR_CHANNEL", Outcome.MESSAGE),
    TOPIC_STRING_ERROR: Reason("TOPIC_STRING_ERROR", Outcome.MESSAGE),
    SUBSCRIPTION_IN_USE: Reason("SUBSCRIPTION_IN_USE", Outcome.LATER),
    PROPERTY_NAME_ERROR: Reason("PROPERTY_NAME_ERROR", Outcome.MESSAGE),
    PROPERTY_VALUE_TOO_BIG: Reason("PROPERTY_VALUE_TOO_BIG", Outcome.MESSAGE),
    2473: Reason("PROPERTY_TYPE_ERROR", Outcome.MESSAGE),
    2478: Reason("PROPERTIES_TOO_BIG", Outcome.MESSAGE),
    2537: Reason("CHANNEL_NOT_AVAILABLE", Outcome.GONE),
    2538: Reason("HOST_NOT_AVAILABLE", Outcome.GONE),
    2540: Reason("UNKNOWN_CHANNEL_NAME", Outcome.REFUSED),
    2543: Reason("STANDBY_Q_MGR", Outcome.GONE),
    2548: Reason("RECONNECT_FAILED", Outcome.GONE),
    2549: Reason("CALL_INTERRUPTED", Outcome.GONE),
}


def mq_error(reason: int, call: str) -> MqError:
    """The error for a call that MQ did not complete."""
    known = REASONS.get(reason)
    return MqError(call, reason, known.name if known else "unknown to Isthmus")


def outcome_of(error: MqError) -> Outcome:
    """What the error's reason means."""
    known = REASONS.get(error.reason)
    return known.outcome if known else Outcome.REFUSED
