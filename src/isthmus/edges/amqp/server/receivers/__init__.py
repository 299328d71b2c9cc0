"""What receivers get: records of Kafka topics, as AMQP messages.

::

    Kafka ──► RecordSource ──► KafkaOutgoingLink ──► link ──► client
                  ▲ settle, request      │ on_disposition, on_flow
                  └──────────────────────┘

`KafkaOutgoingLinks` makes what fills each link. The sources: `GroupSource` reads as a member of a consumer
group, or from given offsets; `QueueSource` is for JMS queues, and for those who share a subscription;
`TemporarySource` is for temporary queues. All of it runs on the event loop. ``docs/jms.md`` says what of JMS
works.
"""

from isthmus.edges.amqp.server.receivers.outgoing_links import KafkaOutgoingLinks

__all__ = ["KafkaOutgoingLinks"]
