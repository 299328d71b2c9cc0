"""The AMQP 1.0 edge: the front door for JMS and AMQP clients, and the client of existing brokers."""
