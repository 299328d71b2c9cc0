"""Kafka, as edges meet it."""

from __future__ import annotations

from isthmus.events import Event


class BatchRefused(Event, level="warning", text="%(topic)s: Kafka does not take a batch: %(error)s"):
    """Kafka refuses a batch, or has not taken it for a while. Told once, until it takes batches again."""

    topic: str
    error: str


class BatchesTaken(Event, level="warning", text="%(topic)s: Kafka takes batches again"):
    """The end of `kafka.batch_refused`."""

    topic: str


class LedgerNotWoken(
    Event, level="warning", text="the ledger looks at the journal only every %(interval_s)g s: %(error)s"
):
    """What tells the ledger of new work could not be written: it finds it later, by itself."""

    interval_s: float
    error: object


class JournalCallbackFailed(
    Event, level="error", text="journal %(topic)s: one that waited for a message has failed"
):
    """A mistake of the bridge's own, with its traceback. The message is in the journal."""

    topic: str


class QueueTooOld(Event, level="warning", text="Kafka is too old for all that queues promise: %(missing)s"):
    """Kafka's version lacks a request that queues need; the line says what receivers miss by that."""

    missing: str


class GroupSettingRefused(
    Event, level="warning", text="Kafka does not take %(setting)s (%(error)s): %(consequence)s"
):
    """Kafka does not let a share group have a setting of its own."""

    setting: str
    error: str
    consequence: str


class QueueStateUnknown(
    Event, level="warning", text="Kafka does not tell what the queue %(queue)s is done with: %(error)s"
):
    """Kafka refuses to say which messages of a queue are consumed."""

    queue: str
    error: str


class QueueUnavailable(Event, level="warning", text="queue %(queue)s: Kafka does not answer: %(error)s"):
    """A queue's member of its share group has lost Kafka. Told once, until Kafka answers again."""

    queue: str
    error: str


class QueueAvailable(Event, level="info", text="queue %(queue)s: Kafka answers again"):
    """The end of `kafka.queue_unavailable`."""

    queue: str


class QueueSessionFailed(Event, level="error", text="queue %(queue)s: a share session failed"):
    """A mistake of the bridge's own, with its traceback: the queue's receivers are detached."""

    queue: str


class QueueLeftUnannounced(
    Event, level="warning", text="queue %(queue)s: a member leaves without a word: %(error)s"
):
    """A member could not leave its share group in good order: Kafka releases what it held when it notices."""

    queue: str
    error: str


class AcknowledgementsRefused(
    Event,
    level="warning",
    text="queue %(queue)s: Kafka did not take %(acknowledgements)d acknowledgements "
    "of partition %(partition)d, first %(offset)d: %(error)s",
):
    """Kafka did not take acknowledgements of a queue's receivers: those messages are redelivered."""

    queue: str
    acknowledgements: int
    partition: int
    offset: int
    error: str


class LocksLost(Event, level="warning", text="queue %(queue)s: the locks of %(messages)d messages are lost"):
    """Kafka has given messages of a queue free while they were held here: others may get them, too."""

    queue: str
    messages: int


class NamesUnguarded(
    Event,
    level="warning",
    text="%(group)s: names are not known to be held once, since Kafka does not help: %(error)s",
):
    """Whether a client id or a subscription is in use elsewhere cannot be found out."""

    group: str
    error: str
