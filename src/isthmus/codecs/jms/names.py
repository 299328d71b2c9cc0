"""The names and numbers that this mapping has beyond those of JMS itself."""

from __future__ import annotations

from typing import Final

DEFAULT_PRIORITY: Final = 4

MESSAGE_TYPE: Final = "x-opt-jms-msg-type"
DELIVERY_TIME: Final = "x-opt-delivery-time"

DESTINATION_TYPE: Final = "x-opt-jms-dest"
REPLY_TO_TYPE: Final = "x-opt-jms-reply-to"
DESTINATION_TYPES: Final = ("queue", "topic", "temporary-queue", "temporary-topic")
"""What the two annotations say, by their number."""

CONTENT_TYPE: Final = "JMS_AMQP_CONTENT_TYPE"
CONTENT_ENCODING: Final = "JMS_AMQP_CONTENT_ENCODING"
REPLY_TO_GROUP_ID: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"

TAKEN: Final = frozenset(
    {
        *("JMSXGroupID", "JMSXGroupSeq", "JMSXUserID", "JMSXDeliveryCount"),
        *(MESSAGE_TYPE, DESTINATION_TYPE, REPLY_TO_TYPE),
        *(CONTENT_TYPE, CONTENT_ENCODING, REPLY_TO_GROUP_ID),
    }
)
"""Names that an application's property cannot have as a header, beyond those that `message` knows."""
