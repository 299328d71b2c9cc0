"""From a message to a Kafka record: one module a form, each with its Spark form in `columns`."""
