"""Bytes of other systems, to and from messages. Pure functions: no sockets, no Kafka, no Spark."""
