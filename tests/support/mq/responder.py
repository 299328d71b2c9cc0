"""An MQ application that answers as MQ's manual says: to the reply queue, with MsgId as CorrelId."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import Connection, QueueTarget


@contextmanager
def responder(connection: Connection, queue: str) -> Iterator[None]:
    """Answers every request with its body, backwards. The connection is its own, and is disconnected."""
    ended = threading.Event()

    def answer() -> None:
        source = connection.open_queue(queue)
        while not ended.is_set():
            if request := source.get(0.1):
                asked = request.descriptor
                assert asked.MsgType == 1
                connection.put(
                    QueueTarget(asked.ReplyToQ, asked.ReplyToQMgr),
                    MqMessage(descriptor=Mqmd(CorrelId=asked.MsgId, MsgType=2), body=request.body[::-1]),
                )
            connection.commit()
        connection.disconnect()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
