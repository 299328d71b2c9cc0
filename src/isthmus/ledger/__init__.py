"""The ledger's decisions: transactions, deletes, annotations and expiry. No Spark, no Kafka.

::

    events of one shard ──► machine.Shard ──► updates to the journal
                              │   ├── transactions   what is held until its outcome
                              │   └── messages       what is deleted, annotated, expired
                              └── state.State        what survives: a summary, and chunks that stream

`isthmus.pipeline.ledger` runs it in Spark.
"""
