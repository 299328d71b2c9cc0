"""Isthmus: a bridge between message systems and Kafka.

::

    senders ──► journal (Kafka) ──► router (Spark) ──► Kafka topics
                                        └──► dead letters

Every message lands in the journal exactly as it arrived. The router decides where it goes, as a native Spark
plan without Python per record. ``docs/architecture.md`` says where things are.
"""
