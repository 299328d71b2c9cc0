"""What JMS applications rely on of queues, beside Artemis.

``python -m benches.queue [--small] [--only CASE] [--server NAME]``: one program on Qpid JMS uses queues of
the AMQP server and of Artemis in the same way, with a prefetch of 0, 1, 10 and 1,000, and with one and three
receivers where that makes a difference. Every queue has one sender, and in Kafka one partition.
`benches.queue_trace` defines what is lost, a duplicate, an inversion.

- *rollback*: ten messages, of which the first is always rolled back and the others are committed. After ten
  deliveries it must be dead-lettered, or delivered again to the next who asks.
- *order*: a backlog that is read in transactions of ten, with AUTO_ACKNOWLEDGE, and with every other batch
  rolled back or recovered; and twelve queues at once with a prefetch of 1.
- *copies*: consumers that need 150 ms a message, for a minute, and transactions that are open for 40 s while
  another receiver waits: both longer than Kafka's lock on a record.
- *cycle*: 1,000 receivers come and go on four connections, each for one message. On the AMQP server 100 links
  besides, of which the detach, or a flow without credit and the detach, follow the attach without waiting for
  an answer (Artemis gives none). Threads and memory (RSS) of the edge before and after that, some dozens of
  receivers having come and gone before.
- *join*: from the creation of a receiver to its first message, on a queue that holds one: new queues, and the
  same queues again.
- *browse*: from the creation of a browser to the end of its enumeration, of a queue that holds 50 messages,
  as many having been received before: each browser must show those, in order.
- *kill*: a program is killed while it receives; others receive the rest.
- *speed*: the rate at which a backlog is read with AUTO_ACKNOWLEDGE; ``receive_ratio`` is ours over Artemis'.
- *exit*: from SIGTERM to the end of the process, with receivers attached.

``lost``, ``duplicates`` and ``inversions`` are the sums over all cases and must be 0. The last line is JSON,
with Artemis' figures as ``artemis_…``; ``broken`` in it says what went wrong in which queue, whose name has
case, prefetch and number of receivers.
"""
