"""What receivers of the front door get: records of Kafka topics, as AMQP messages.

::

    Kafka ──► Supply (a thread) ──► RecordOutlet (the loop) ──► link ──► client
                 ▲ settle, want           │ disposed, flowed
                 └────────────────────────┘

`KafkaOutlets` makes an outlet for every link. `GroupSupply` reads as a member of a consumer group, or from
given places; `ShareSupply` is for JMS queues. ``docs/jms.md`` says what of JMS works.
"""

from isthmus.edges.amqp.receivers.outlets import KafkaOutlets

__all__ = ["KafkaOutlets"]
