"""The AMQP server, and AMQP brokers elsewhere."""

from __future__ import annotations

from isthmus.events import Event


class Listening(Event, level="info", text="AMQP clients can connect to %(host)s on %(ports)s"):
    """The AMQP server takes connections; with several workers, each of them says so."""

    host: str
    ports: str


class ClientConnected(
    Event, level="info", text="%(user).100r has connected from %(address)s as %(container_id).100r"
):
    """A client of the AMQP server has logged in and opened its connection."""

    address: str
    user: str
    container_id: str


class ClientDisconnected(
    Event, level="info", text="%(container_id).100r, which came from %(address)s, has disconnected"
):
    """The connection of a client is over, by a close or without one."""

    address: str
    container_id: str


class ConnectionFailed(
    Event, level="error", text="an AMQP connection ends with an unexpected error", limited=True
):
    """A mistake of the bridge's own, with its traceback. It costs that connection, and no other."""


class ConnectionTurnedAway(
    Event, level="warning", text="a connection of %(address)s was turned away: too many", limited=True
):
    """A limit on connections is reached: one more was not taken, or a silent one had to make room."""

    address: str


class ConnectionEvicted(
    Event, level="warning", text="a connection of %(address)s was closed: %(error)s", limited=True
):
    """A client held too much of the server's memory, and would have held everybody else up."""

    address: str
    error: object


class MemoryFull(
    Event,
    level="info",
    text="messages in flight take %(size)d bytes: clients are read no further",
    limited=True,
):
    """`amqp.max-total-unsettled-bytes` is reached. Senders wait until Kafka has taken some."""

    size: int


class MemoryFreed(Event, level="info", text="clients are read again", limited=True):
    """The end of `amqp.memory_full`."""


class LoginRefused(Event, level="warning", text="a login from %(address)s was refused", limited=True):
    """A client could not show who it is."""

    address: str


class MessageRejected(
    Event, level="info", text="a message for %(target).100r was rejected: %(error)s", limited=True
):
    """A client's message cannot be taken: the client was told why."""

    target: str
    condition: str
    error: object


class LinkNotClosed(
    Event, level="warning", text="link %(link).100s was not closed in good order: %(error)s", limited=True
):
    """What a link had left to do with Kafka failed: messages that it held are redelivered."""

    link: str
    error: object


class LinkOverdue(
    Event,
    level="warning",
    text="link %(link).100s is not closed after %(seconds)g s: its client waits no longer",
    limited=True,
):
    """A link takes long to close. Its client was answered; the link goes on closing."""

    link: str
    seconds: float


class LinksGivenUp(Event, level="warning", text="%(links)d links are given up that do not close"):
    """The server stops without them: what they held is redelivered."""

    links: int


class WorkerEnded(
    Event, level="warning", text="an AMQP worker ended with exit code %(exit_code)d, and is started again"
):
    """A process of the AMQP server died. Its clients have to connect anew."""

    exit_code: int


class RecordSkipped(
    Event,
    level="warning",
    text="%(topic)s[%(partition)d]@%(offset)d was skipped: %(error)s",
    limited=True,
):
    """A record that no receiver can be given was left out."""

    topic: str
    partition: int
    offset: int
    error: object


class QueueBlocked(
    Event,
    level="warning",
    text="queue %(queue)s: %(messages)d messages wait that no receiver's selector is true for: "
    "it reads no further",
):
    """A queue's memory is full of messages that none of its receivers wants."""

    queue: str
    messages: int


class DeadLetterHeldBack(Event, level="error", text="queue %(queue)s: a dead letter is held back: %(error)s"):
    """A message of a queue can be neither delivered nor dead-lettered. It is tried until it can be."""

    queue: str
    error: object


class GroupNotCommitted(Event, level="warning", text="%(topic)s: group %(group)s: no commit: %(error)s"):
    """Kafka refuses a commit of a receiver's consumer group: the link is detached."""

    topic: str
    group: str
    error: str


class OversizeRejected(
    Event, level="warning", text="%(session)s: a message is rejected: %(error)s", limited=True
):
    """A broker's message is larger than the journal takes: it is rejected there."""

    session: str
    error: object


class IntakeUnsettled(Event, level="info", text="%(messages)d messages of %(broker)s will be redelivered"):
    """An intake ends before the journal had all that was taken: the broker keeps it."""

    messages: int
    broker: str
