"""The client of existing brokers: takes messages from their queues and topics, and sends messages to them.

::

    AmqpClient ──► BrokerConnection (the engine on a socket) ──► AmqpIntake, an IncomingLink for each address
                                                             └─► AmqpDelivery, an OutgoingLink for each
                                                                 destination

Intake and delivery have a connection each, so that trouble with one is none with the other. `translate` is
where a message of the broker's becomes an entry of the journal, and a record of the outbox a message.
"""

from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.delivery import AmqpDelivery
from isthmus.edges.amqp.client.intake import AmqpIntake

__all__ = ["AmqpClient", "AmqpDelivery", "AmqpIntake"]
