"""IBM MQ: queues and topics, to and from the journal.

`port` says what the edge needs of a queue manager. Two things fulfil it: `ibm`, on IBM's own binding and
client library, and `isthmus.testing.queue_manager`, which stands in for IBM MQ in memory. `intake` gets
messages under syncpoint and commits once the journal has them; `delivery` puts messages and commits before it
says that they are delivered. `translate` is where an MQMD becomes headers, and headers an MQMD.
"""
