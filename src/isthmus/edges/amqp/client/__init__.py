"""The client of existing brokers: takes messages from their queues and topics, and sends letters to them.

::

    AmqpClient ──► BrokerConnection (the engine on a socket) ──► AmqpIntake, a link for every address
                                                             └─► AmqpDelivery, a link for every destination

Intake and delivery have a connection each, so that trouble with one is none with the other.
"""

from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.delivery import AmqpDelivery
from isthmus.edges.amqp.client.intake import AmqpIntake

__all__ = ["AmqpClient", "AmqpDelivery", "AmqpIntake"]
