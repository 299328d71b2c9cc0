"""A JMS queue as source of proton's receiver, which knows nothing of JMS."""

from __future__ import annotations

from typing import Any

from proton import Data, symbol
from proton.reactor import ReceiverOption
from proton.utils import BlockingReceiver


class Queue(ReceiverOption):
    """Asks for the capability that makes the source a queue."""

    def apply(self, receiver: Any) -> None:
        capabilities = receiver.source.capabilities
        capabilities.put_array(False, Data.SYMBOL)
        capabilities.enter()
        capabilities.put_symbol(symbol("queue"))
        capabilities.exit()


def take(link: BlockingReceiver, patience_s: float = 60) -> str:
    """The body of the next message, which is accepted."""
    message = link.receive(patience_s)  # held on to, since the body is a view of its memory
    text = bytes(message.body).decode()
    link.accept()
    return text
