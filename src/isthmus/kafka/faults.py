"""What an error of Kafka's means for whoever gets it: the one table that all clients here go by.

=========  ==========================================================================================
retriable  Kafka cannot do it now: a broker starts, a leader moves, an answer is late. Ask again.
fenced     What the request came from is no longer valid: the membership, the session, the lock, the
           producer. Begin anew with another; what was held under it is somebody else's.
final      Kafka will say it again however often it is asked.
=========  ==========================================================================================

Codes are those of ``org.apache.kafka.common.protocol.Errors``, as of Kafka 4.3, and below -1 those that
librdkafka has for what happens in a client. Two differ from Java's own judgement, since there patience is
bounded: an unknown server error and an unavailable broker may pass.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aiokafka import errors

UNKNOWN_SERVER_ERROR: Final = -1
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
REQUEST_TIMED_OUT: Final = 7
MESSAGE_TOO_LARGE: Final = 10
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
UNKNOWN_MEMBER_ID: Final = 25
INVALID_SESSION_TIMEOUT: Final = 26
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_AUTHORIZATION_FAILED: Final = 29
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42
DUPLICATE_SEQUENCE_NUMBER: Final = 46
UNKNOWN_PRODUCER_ID: Final = 59
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
MEMBER_ID_REQUIRED: Final = 79
UNRELEASED_INSTANCE_ID: Final = 111
INVALID_RECORD_STATE: Final = 121
SHARE_SESSION_NOT_FOUND: Final = 122
INVALID_SHARE_SESSION_EPOCH: Final = 123


class Fault(Enum):
    """What to do about an error."""

    RETRIABLE = "retriable"
    FENCED = "fenced"
    FINAL = "final"


_RETRIABLE: Final = {
    UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    REQUEST_TIMED_OUT: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    NOT_ENOUGH_REPLICAS: "NOT_ENOUGH_REPLICAS",
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    41: "NOT_CONTROLLER",
    51: "CONCURRENT_TRANSACTIONS",
    56: "KAFKA_STORAGE_ERROR",
    60: "REASSIGNMENT_IN_PROGRESS",
    70: "FETCH_SESSION_ID_NOT_FOUND",
    71: "INVALID_FETCH_SESSION_EPOCH",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",  # the leader's, not ours: ask who leads now
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    80: "PREFERRED_LEADER_NOT_AVAILABLE",
    83: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    84: "ELECTION_NOT_NEEDED",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
    106: "FETCH_SESSION_TOPIC_ID_ERROR",
    108: "NEW_LEADER_ELECTED",
    UNRELEASED_INSTANCE_ID: "UNRELEASED_INSTANCE_ID",
    129: "REBOOTSTRAP_REQUIRED",
    133: "SHARE_SESSION_LIMIT_REACHED",
    -180: "waiting for the coordinator",
    -185: "timed out",
    -187: "all brokers are down",
    -192: "message timed out",
    -193: "cannot be resolved",
    -195: "the connection broke",
    -166: "timed out in the queue",
}
_FENCED: Final = {
    22: "ILLEGAL_GENERATION",
    UNKNOWN_MEMBER_ID: "UNKNOWN_MEMBER_ID",
    REBALANCE_IN_PROGRESS: "REBALANCE_IN_PROGRESS",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    49: "INVALID_PRODUCER_ID_MAPPING",
    52: "TRANSACTION_COORDINATOR_FENCED",
    UNKNOWN_PRODUCER_ID: "UNKNOWN_PRODUCER_ID",
    MEMBER_ID_REQUIRED: "MEMBER_ID_REQUIRED",
    82: "FENCED_INSTANCE_ID",
    90: "PRODUCER_FENCED",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
    INVALID_RECORD_STATE: "INVALID_RECORD_STATE",
    SHARE_SESSION_NOT_FOUND: "SHARE_SESSION_NOT_FOUND",
    INVALID_SHARE_SESSION_EPOCH: "INVALID_SHARE_SESSION_EPOCH",
    124: "FENCED_STATE_EPOCH",
    -142: "the assignment was lost",
    -144: "fenced",
}
_FINAL: Final = {
    OFFSET_OUT_OF_RANGE: "OFFSET_OUT_OF_RANGE",
    MESSAGE_TOO_LARGE: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    RECORD_LIST_TOO_LARGE: "RECORD_LIST_TOO_LARGE",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    INVALID_SESSION_TIMEOUT: "INVALID_SESSION_TIMEOUT",
    TOPIC_AUTHORIZATION_FAILED: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    35: "UNSUPPORTED_VERSION",
    TOPIC_ALREADY_EXISTS: "TOPIC_ALREADY_EXISTS",
    INVALID_CONFIG: "INVALID_CONFIG",
    INVALID_REQUEST: "INVALID_REQUEST",
    44: "POLICY_VIOLATION",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    58: "SASL_AUTHENTICATION_FAILED",
    NON_EMPTY_GROUP: "NON_EMPTY_GROUP",
    GROUP_ID_NOT_FOUND: "GROUP_ID_NOT_FOUND",
    81: "GROUP_MAX_SIZE_REACHED",
    87: "INVALID_RECORD",
    91: "RESOURCE_NOT_FOUND",
    112: "UNSUPPORTED_ASSIGNOR",
    128: "INVALID_REGULAR_EXPRESSION",
}
"""For their names: every code that is in no table is final."""
_NAMES: Final = _RETRIABLE | _FENCED | _FINAL

_RETRIABLE_CLASSES: Final = (
    OSError,
    TimeoutError,
    errors.Cancelled,
    errors.KafkaConnectionError,
    errors.KafkaTimeoutError,
    errors.KafkaUnavailableError,
    errors.MetadataEmptyBrokerList,
    errors.NoBrokersAvailable,
    errors.NodeNotReadyError,
    errors.StaleMetadata,
    errors.TooManyInFlightRequests,
    errors.CorrelationIdError,
)
_FENCED_CLASSES: Final = (errors.CommitFailedError, errors.ProducerFenced)


class KafkaRefusal(errors.BrokerResponseError):
    """An error code that a broker answered with, by its name. aiokafka knows no code above 79."""

    def __init__(self, code: int, said: str | None = None) -> None:
        super().__init__(said or "")
        self.errno = code
        self.said = said
        """The broker's own words, where an answer has room for them."""

    def __str__(self) -> str:
        return f"{name_of(self.errno)}: {self.said}" if self.said else name_of(self.errno)


def raise_for(code: int, said: str | None = None) -> None:
    """Raise `KafkaRefusal` for an answer's error code, unless it is 0."""
    if code:
        raise KafkaRefusal(code, said)


def name_of(code: int) -> str:
    """What Kafka calls a code."""
    return _NAMES.get(code) or f"error {code}"


def fault_of_code(code: int) -> Fault:
    """What a broker's or librdkafka's error code means."""
    if code in _RETRIABLE:
        return Fault.RETRIABLE
    return Fault.FENCED if code in _FENCED else Fault.FINAL


def kind(error: BaseException) -> Fault:
    """What an exception means: one of aiokafka's or of this package's, or what a broken connection raises."""
    if isinstance(error, errors.BrokerResponseError):
        return fault_of_code(error.errno)
    if isinstance(error, _FENCED_CLASSES):
        return Fault.FENCED
    return Fault.RETRIABLE if isinstance(error, _RETRIABLE_CLASSES) else Fault.FINAL


def reason(error: BaseException) -> str:
    """An error in words, for logs and clients: some of aiokafka's have none."""
    if isinstance(error, errors.BrokerResponseError) and not isinstance(error, KafkaRefusal):
        return name_of(error.errno)
    return str(error) or type(error).__name__
