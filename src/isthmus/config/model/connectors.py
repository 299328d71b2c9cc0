"""Connectors in the spelling of the NATS-MQ bridge, ``connectors.<id>.type=Queue2NATS`` and its like.

They have the keys that they have always had. What they come to is `isthmus.config.model.plan`'s business.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from isthmus.config.model import nats_values, values
from isthmus.config.model.mq import MqSettings
from isthmus.config.model.nats_values import Start
from isthmus.config.model.section import Section, setting


class ConnectorType(StrEnum):
    """What a connector brings where. ``Stan`` stands for JetStream, which took its place."""

    QUEUE_TO_NATS = "Queue2NATS"
    NATS_TO_QUEUE = "NATS2Queue"
    TOPIC_TO_NATS = "Topic2NATS"
    NATS_TO_TOPIC = "NATS2Topic"
    QUEUE_TO_STAN = "Queue2Stan"
    STAN_TO_QUEUE = "Stan2Queue"
    TOPIC_TO_STAN = "Topic2Stan"
    STAN_TO_TOPIC = "Stan2Topic"

    @property
    def ends(self) -> tuple[str, str]:
        """From which kind of thing, to which."""
        source, _, destination = self.value.lower().partition("2")
        return source, destination


_TYPES = {type.lower(): type for type in ConnectorType}


def _type(value: object) -> ConnectorType:
    if isinstance(value, str) and (found := _TYPES.get(value.lower())):
        return found
    raise ValueError(f"expected one of {', '.join(ConnectorType)}")


Text = Annotated[str, values.text]
Subject = Annotated[str, nats_values.pattern]
Name = Annotated[str, nats_values.name]
Flag = Annotated[bool, nats_values.flag]


class ConnectorSettings(Section):
    """The keys of one connector, ``connectors.<id>.…``."""

    type: Annotated[ConnectorType, _type] = setting("type", ..., "what is brought where")
    queue: Text | None = setting("queue", None, "the MQ queue, for the types with Queue")
    topic: Text | None = setting("topic", None, "the MQ topic string, for the types with Topic")
    subject: Subject | None = setting("subject", None, "the subject, for the types with NATS")
    natsqueue: Name | None = setting("natsqueue", None, "the queue group, for the types that begin with NATS")
    channel: Subject | None = setting("channel", None, "the subject of a stream, for the types with Stan")
    durablename: Name | None = setting(
        "durablename", None, "the durable consumer, for the types that begin with Stan; `isthmus-<id>`"
    )
    startatsequence: Annotated[int, values.whole_number(-1, 2**62)] | None = setting(
        "startatsequence",
        None,
        "where a new consumer begins: a sequence, `0` for the first, `-1` for the last",
    )
    startattime: Annotated[int, values.whole_number(0, 2**40)] | None = setting(
        "startattime", None, "where a new consumer begins: seconds since 1970"
    )
    excludeheaders: Flag = setting(
        "excludeheaders", False, "whether the body travels alone: `true` or `false`"
    )
    connectionname: Text | None = setting("mq.connectionname", None, "`host(port)` of the queue manager")
    channelname: Text | None = setting("mq.channelname", None, "the server-connection channel")
    queuemanager: Text | None = setting("mq.queuemanager", None, "the queue manager's name")
    username: Text | None = setting("mq.username", None, "the user to connect to MQ as")
    password: Annotated[str, nats_values.secret] | None = setting("mq.password", None, "the user's password")
    keyrepository: Text | None = setting("mq.keyrepository", None, "the key repository, for TLS")
    certificatelabel: Text | None = setting("mq.certificatelabel", None, "the certificate's label in it")
    sslpeername: Text | None = setting(
        "mq.sslpeername", None, "the distinguished name that the queue manager's certificate must have"
    )

    def _check_together(self) -> None:
        for kind in self.type.ends:
            key = {"nats": "subject", "stan": "channel"}.get(kind, kind)
            if getattr(self, key) is None:
                raise ValueError(f"{self.type} needs {key}")
        to_nats = {"nats": self.subject, "stan": self.channel}.get(self.type.ends[1])
        if to_nats is not None and re.search(r"[*>]", to_nats):
            raise ValueError("expected a subject without wildcards to publish to")
        if self.startatsequence is not None and self.startattime is not None:
            raise ValueError("expected startatsequence or startattime, not both")

    @property
    def start(self) -> Start:
        """Where a new consumer begins."""
        if self.startattime is not None:
            return Start("time", time=datetime.fromtimestamp(self.startattime, UTC))
        if self.startatsequence == -1:
            return Start("last")
        return Start("sequence", sequence=self.startatsequence) if self.startatsequence else Start("first")

    def manager(self, mq: MqSettings) -> MqSettings:
        """The queue manager at the MQ end: what the connector does not say of it is as ``mq.`` says."""
        given = {
            "queue_manager": self.queuemanager,
            "channel": self.channelname,
            "address": self.connectionname,
            "user": self.username,
            "password": self.password,
            "key_repository": self.keyrepository,
            "certificate_label": self.certificatelabel,
            "peer_name": self.sslpeername,
        }
        own = {name: value for name, value in given.items() if value}
        if not own:
            return mq
        return MqSettings(**{name: getattr(mq, name) for name in MqSettings.fields} | own)
