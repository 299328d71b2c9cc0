"""AMQP 1.0 messages as JMS sees them, by the OASIS mapping of AMQP to JMS, and back.

`to_message` makes the `Message` over an encoded AMQP message, with the headers of JMS. `to_amqp` makes of
headers and a body the AMQP message that a JMS client takes for the one that was sent.

===========================  ==============================  ==============================================
header                       AMQP                            note
===========================  ==============================  ==============================================
MessageId, CorrelationId     message-id, correlation-id      text that keeps the type: see `jms.ids`
Destination                  to, or the link's target
ReplyTo, Type                reply-to, subject
DeliveryMode                 durable                         PERSISTENT or NON_PERSISTENT
Priority                     priority                        4 when absent, 9 at most
Expiration                   absolute-expiry-time, or ttl    absent when there is none
Timestamp                    creation-time
DeliveryTime                 annotation x-opt-delivery-time
Redelivered                  delivery-count                  whether it is above 0
JMSXDeliveryCount            delivery-count                  one more: JMS counts this delivery too
JMSXGroupID, JMSXGroupSeq    group-id, group-sequence
JMSXUserID                   user-id
x-opt-jms-dest               annotation of that name         queue, topic, temporary-queue, temporary-topic
x-opt-jms-reply-to           annotation of that name         the same
x-opt-jms-msg-type           annotation of that name         ``bytes`` for a bytes message, ``text`` for a
                                                             text message of null, absent otherwise
JMS_AMQP_CONTENT_TYPE        content-type                    unless the kind of the body implies it
JMS_AMQP_CONTENT_ENCODING    content-encoding
JMS_AMQP_REPLY_TO_GROUP_ID   reply-to-group-id
any other                    application property            ``property.<name>`` if the name is taken
===========================  ==============================  ==============================================

The kind of the body is what the annotation ``x-opt-jms-msg-type`` says, as long as the body can be that, and
otherwise what its section, type and content-type say.

What does not come back: delivery annotations, footer, other message annotations, first-acquirer, a priority
above 9, whether an expiry was given as a time or as a ttl, how many data sections there were, and the
difference between no body and a null. A sequence that is no stream message comes back as an amqp-value if it
has one list.
"""

from isthmus.codecs.jms.headers import to_message
from isthmus.codecs.jms.ids import correlation_id_text, message_id_text, parse_id
from isthmus.codecs.jms.kinds import body_of
from isthmus.codecs.jms.outgoing import to_amqp

__all__ = ["body_of", "correlation_id_text", "message_id_text", "parse_id", "to_amqp", "to_message"]
