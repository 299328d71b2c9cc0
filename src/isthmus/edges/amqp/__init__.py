"""The AMQP 1.0 edge: a server for JMS and AMQP clients, and a client of existing brokers.

::

    protocol   the engine: bytes in, events out; no sockets
    transport  the engine on asyncio, for both
    server     takes connections: what is sent goes to the journal, what is received comes from Kafka
    client     connects to brokers: takes from their queues and topics, and sends to them
"""
