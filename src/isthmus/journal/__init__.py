"""The journal: the Kafka topic that every message lands in, exactly as it arrived.

`layout` is the contract (specified in ``docs/journal.md``), `writer` puts messages in, `columns` reads them
in Spark.
"""
