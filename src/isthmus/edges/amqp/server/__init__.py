"""The AMQP 1.0 server for JMS and AMQP clients."""
