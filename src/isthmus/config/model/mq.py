"""How MQ is reached, and what is taken from it: the keys under ``mq.``, typed and checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

from isthmus.config.model import values
from isthmus.config.model.section import Section, setting
from isthmus.config.syntax.hidden import Hidden

_ADDRESS = re.compile(r"[A-Za-z0-9.:_-]+\([0-9]{1,5}\)")
_NAME = re.compile(r"[A-Za-z0-9._/%]{1,48}", re.ASCII)
TOPIC_SCHEME = "topic://"
"""What a destination begins with that is a topic string."""
_CHANNEL = re.compile(r"[A-Za-z0-9._/%]{1,20}", re.ASCII)


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise ValueError(f"expected {expected}")

    return check


def _addresses(value: object) -> str:
    """Where queue managers listen, as MQ writes it."""
    if isinstance(value, str) and all(_ADDRESS.fullmatch(each) for each in value.split(",")):
        return value
    raise ValueError("expected host(port), several of them separated by commas")


def mq_target(value: object) -> str:
    """A queue, a queue of another queue manager, or a topic string."""
    if isinstance(value, str):
        topic = value.removeprefix(TOPIC_SCHEME)
        queue, at, manager = value.partition("@")
        if topic if topic != value else _NAME.fullmatch(queue) and (not at or _NAME.fullmatch(manager)):
            return value
    raise ValueError("expected QUEUE, QUEUE@QMGR or topic://a/b")


def _flag(value: object) -> bool:
    """``true`` or ``false``."""
    return value if isinstance(value, bool) else values.choice("true", "false")(value) == "true"


def _secret(value: object) -> str:
    """Text that nobody shall see."""
    written = values.text(value)
    return written if isinstance(written, Hidden) else Hidden(written)


Text = Annotated[str, values.text]
Secret = Annotated[str, _secret]
MqName = Annotated[str, _matching(_NAME, "a name of MQ's: up to 48 letters, digits, '.', '_', '/' or '%'")]
Channel = Annotated[
    str, _matching(_CHANNEL, "a channel's name: up to 20 letters, digits, '.', '_', '/' or '%'")
]
Client = Annotated[Literal["ibm", "memory"], values.choice("ibm", "memory")]
Poison = Annotated[Literal["dead-letter", "backout-queue"], values.choice("dead-letter", "backout-queue")]


class MqSettings(Section):
    """How the bridge reaches a queue manager."""

    client: Client = setting(
        "client",
        "ibm",
        "`ibm`: IBM's client library; `memory`: a queue manager in this process that stands in for IBM MQ",
    )
    queue_manager: MqName | None = setting(
        "queue-manager", None, "the queue manager's name", default_text="the channel's own"
    )
    channel: Channel | None = setting(
        "channel",
        None,
        "the server-connection channel; without it, MQSERVER or the client's channel table says",
    )
    address: Annotated[str, _addresses] | None = setting(
        "address", None, "`host(port)` of the queue manager, several of them separated by commas"
    )
    user: Text | None = setting("user", None, "the user to connect as")
    password: Secret | None = setting("password", None, "the user's password")
    cipher_spec: Text | None = setting("tls.cipher-spec", None, "the channel's cipher specification, for TLS")
    key_repository: Text | None = setting("tls.key-repository", None, "the client's key repository, for TLS")
    certificate_label: Text | None = setting(
        "tls.certificate-label", None, "the label of the client's own certificate in it"
    )
    peer_name: Text | None = setting(
        "tls.peer-name", None, "the distinguished name that the queue manager's certificate must have"
    )
    library: Text | None = setting(
        "library",
        None,
        "the path of IBM's libmqm_r.so",
        default_text="where the system looks for libraries",
    )
    reply_queue: MqName | None = setting(
        "reply-queue",
        None,
        "a queue of the bridge's own: MQ applications answer there to requests out of NATS inboxes",
    )
    max_backoff_s: Annotated[float, values.duration_s] = setting(
        "reconnect.max-wait", 10.0, "the longest wait between two attempts to connect"
    )

    def _check_together(self) -> None:
        if bool(self.channel) != bool(self.address):
            raise ValueError("expected mq.channel and mq.address, or neither")
        if self.password and not self.user:
            raise ValueError("mq.password needs mq.user")


class MqIntakeSettings(Section):
    """What is taken from MQ: a queue, or what is published to a topic string."""

    queue: MqName | None = setting("queue", None, "the queue that messages are got from")
    topic: Text | None = setting(
        "topic", None, "the topic string that is subscribed to; `#` and `+` are wildcards for whole levels"
    )
    durable: Text | None = setting(
        "durable", None, "the name of a durable subscription: with it, none of the topic's messages is missed"
    )
    whole_groups: Annotated[bool, _flag] = setting(
        "whole-groups",
        False,
        "whether a message group is taken only once all of it is there: `true` or `false`",
        default_text="false",
    )
    batch: Annotated[int, values.whole_number(1, 5_000)] = setting(
        "batch", 100, "how many messages are got in one unit of work, at most"
    )
    backout_threshold: Annotated[int, values.whole_number(1, 1_000_000)] | None = setting(
        "backout.threshold",
        None,
        "how often a message may be backed out before it is set aside",
        default_text="the queue's BOTHRESH, or 5",
    )
    poison: Poison = setting(
        "backout.to",
        "dead-letter",
        "where it is set aside: `dead-letter`, or `backout-queue` for the queue's BOQNAME",
    )

    def _check_together(self) -> None:
        if bool(self.queue) == bool(self.topic):
            raise ValueError("expected queue or topic")
        if self.durable and not self.topic:
            raise ValueError("durable needs topic")

    @property
    def address(self) -> str:
        """What the messages' address is."""
        return self.queue or self.topic or ""
