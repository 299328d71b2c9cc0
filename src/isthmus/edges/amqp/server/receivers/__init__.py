"""What receivers of the front door get: records of Kafka topics, as AMQP messages.

::

    Kafka ──► RecordSource (a thread) ──► KafkaOutgoingLink (the loop) ──► link ──► client
                 ▲ settle, want           │ on_disposition, on_flow
                 └────────────────────────┘

`KafkaOutgoingLinks` makes what fills each link. `GroupSource` reads as a member of a consumer group, or from
given offsets; `QueueSource` is for JMS queues. ``docs/jms.md`` says what of JMS works.
"""

from isthmus.edges.amqp.server.receivers.outgoing_links import KafkaOutgoingLinks

__all__ = ["KafkaOutgoingLinks"]
