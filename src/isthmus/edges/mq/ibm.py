"""The port on ``ibmmq``, IBM's Python binding, which needs IBM's MQ client library at run time.

Neither is imported before the first connection, so that a bridge without MQ needs neither. Messages are got
as they are, without conversion: the bytes that somebody put are the bytes that the journal has.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import FIELD_BYTES, FIELDS, Mqmd, MqMessage
from isthmus.edges.mq.ibm_properties import read_properties, write_properties
from isthmus.edges.mq.port import QueueTarget, Source, Target
from isthmus.errors import HardFailure, MqError

OPEN_TARGETS = 100
"""How many queues stay open for putting. Replies go to many queues, each used once or twice."""

LARGEST_MESSAGE_BYTES = 100 * 1024 * 1024
"""MQ's own limit. A client channel's is 4 MiB unless its definition and the client say otherwise."""

_WARNING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How the client finds its queue manager: without a channel, by MQSERVER or its channel table."""

    queue_manager: str = ""
    channel: str = ""
    address: str = ""
    """``host(port)``, several of them separated by commas."""
    user: str = ""
    password: str = field(default="", repr=False)
    cipher_spec: str = ""
    key_repository: str = ""
    certificate_label: str = ""
    peer_name: str = ""
    library: str = ""
    """The path of ``libmqm_r.so``, where the system's loader does not find it."""


def load(library: str = "") -> ModuleType:
    """The binding. Raises `HardFailure` when it, or IBM's library, is not there."""
    try:
        if library:
            # The binding asks for the library by name; one that is already loaded is taken.
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        # Where OpenTelemetry is installed, the binding hands traces on by itself: it opens every queue once
        # more and looks each message through twice, for what the bridge carries anyway.
        os.environ.setdefault("MQIPY_NOOTEL", "1")
        return importlib.import_module("ibmmq")
    except (ImportError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "ibmmq":
            raise HardFailure(
                "IBM MQ cannot be used: there is no module ibmmq", remedy="pip install 'isthmus[mq]'"
            ) from error
        # The binding looks for its own C part in two places. The first failure is the one that tells.
        first = error.__context__ or error
        raise HardFailure(
            f"IBM MQ cannot be used: its client library does not load: {first}",
            remedy="install IBM's MQ client (IBM calls it the redistributable client), "
            "and name its libmqm_r.so in mq.library",
        ) from error


class IbmQueueManager:
    """A queue manager of IBM MQ, reached through IBM's client."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options

    @property
    def description(self) -> str:
        """What is behind this."""
        where = self._options.address or "where MQSERVER or the channel table says"
        return f"IBM MQ {self._options.queue_manager or '(default queue manager)'} at {where}, by ibmmq"

    def connect(self) -> IbmConnection:
        """A new connection."""
        mq = load(self._options.library)
        manager = mq.QueueManager(None)
        with _calls(mq, f"MQCONNX {self._options.queue_manager}"):
            manager.connect_with_options(self._options.queue_manager.encode(), **self._structures(mq))
        return IbmConnection(mq, manager)

    def _structures(self, mq: ModuleType) -> dict[str, Any]:
        options, constants = self._options, mq.CMQC
        structures: dict[str, Any] = {
            "cno": mq.CNO(
                # We reconnect ourselves: MQ's way would hide that a unit of work is gone.
                Options=constants.MQCNO_CLIENT_BINDING
                | constants.MQCNO_HANDLE_SHARE_BLOCK
                | constants.MQCNO_RECONNECT_DISABLED,
                ApplName=b"isthmus",
            )
        }
        if options.channel:
            structures["cd"] = mq.CD(
                ChannelName=options.channel.encode(),
                ConnectionName=options.address.encode(),
                MaxMsgLength=LARGEST_MESSAGE_BYTES,
                SSLCipherSpec=options.cipher_spec.encode(),
            )
            if options.peer_name:
                structures["cd"].SSLPeerNamePtr = options.peer_name  # the binding makes a pointer of it
        if options.user:
            structures["csp"] = mq.CSP(
                CSPUserId=str.__str__(options.user), CSPPassword=str.__str__(options.password)
            )
        if options.key_repository:
            structures["sco"] = mq.SCO(
                KeyRepository=options.key_repository.encode(),
                CertificateLabel=options.certificate_label.encode(),
            )
        return structures


class IbmConnection:
    """A connection through IBM's client."""

    def __init__(self, mq: ModuleType, manager: Any) -> None:
        self._mq = mq
        self._manager = manager
        self._name: str | None = None
        self._targets: OrderedDict[Target, Any] = OrderedDict()
        self._sources: list[Any] = []
        self._handle: Any = None

    @property
    def queue_manager(self) -> str:
        """The queue manager's name."""
        if self._name is None:
            with _calls(self._mq, "MQINQ"):
                self._name = _text(self._manager.inquire(self._mq.CMQC.MQCA_Q_MGR_NAME))
        return self._name

    def open_queue(self, queue: str, *, whole_groups: bool = False) -> Source:
        """Open a queue for getting."""
        constants = self._mq.CMQC
        options = constants.MQOO_INPUT_SHARED | constants.MQOO_FAIL_IF_QUIESCING
        described = self._mq.OD(ObjectName=queue.encode())
        try:
            with _calls(self._mq, f"MQOPEN {queue}"):
                opened = self._mq.Queue(self._manager, described, options | constants.MQOO_INQUIRE)
        except MqError as error:
            if error.reason != reasons.NOT_AUTHORIZED:
                raise
            with _calls(self._mq, f"MQOPEN {queue}"):  # getting may be allowed where asking is not
                opened = self._mq.Queue(self._manager, described, options)
            return self._source(opened, _text(described.ObjectName), whole_groups=whole_groups)
        with _calls(self._mq, f"MQINQ {queue}"):
            attributes = opened.inquire([constants.MQIA_BACKOUT_THRESHOLD, constants.MQCA_BACKOUT_REQ_Q_NAME])
        return self._source(
            opened,
            _text(described.ObjectName),
            backout_threshold=attributes[constants.MQIA_BACKOUT_THRESHOLD],
            backout_queue=_text(attributes[constants.MQCA_BACKOUT_REQ_Q_NAME]),
            whole_groups=whole_groups,
        )

    def subscribe(self, topic: str, *, durable_name: str | None = None) -> Source:
        """Subscribe to a topic string."""
        constants = self._mq.CMQC
        described = self._mq.SD(
            Options=constants.MQSO_CREATE
            | constants.MQSO_MANAGED
            | constants.MQSO_WILDCARD_TOPIC
            # With no id to set, messages keep the one that their publisher gave them.
            | constants.MQSO_SET_CORREL_ID
            | constants.MQSO_FAIL_IF_QUIESCING
        )
        described.set_vs("ObjectString", topic.encode(), 0, 0, UTF8)
        if durable_name is not None:
            described.Options |= constants.MQSO_DURABLE | constants.MQSO_RESUME
            described.set_vs("SubName", durable_name.encode(), 0, 0, UTF8)
        subscription = self._mq.Subscription(self._manager)
        with _calls(self._mq, f"MQSUB {topic}"):
            subscription.sub(sub_desc=described)
        keep = constants.MQCO_KEEP_SUB if durable_name is not None else constants.MQCO_REMOVE_SUB
        return self._source(
            subscription.get_sub_queue(), durable_name or topic, subscription=subscription, keep=keep
        )

    def put(self, target: Target, message: MqMessage) -> Mqmd:
        """Put a message within the unit of work."""
        mq, constants = self._mq, self._mq.CMQC
        opened = self._open_target(target)
        described = _to_md(mq, message.descriptor)
        options = mq.PMO(Options=constants.MQPMO_SYNCPOINT | constants.MQPMO_FAIL_IF_QUIESCING)
        try:
            with _calls(mq, f"MQPUT {target}"):
                if not message.properties:
                    _put(mq, opened, message.body, described, options)
                else:
                    handle = mq.MessageHandle(self._manager)
                    try:
                        write_properties(mq, handle, message.properties)
                        options.OriginalMsgHandle = handle.get_handle()
                        _put(mq, opened, message.body, described, options)
                    finally:
                        handle.dlt()
        except MqError:
            self._close_target(target)  # it may be another queue of that name by now
            raise
        return _from_md(described)

    def commit(self) -> None:
        """Make the unit of work real."""
        with _calls(self._mq, "MQCMIT"):
            self._manager.get_handle()  # raises what it should when there is none; commit would not
            self._manager.commit()

    def backout(self) -> None:
        """Undo the unit of work."""
        with _calls(self._mq, "MQBACK"):
            self._manager.get_handle()
            self._manager.backout()

    def disconnect(self) -> None:
        """Back out, and disconnect."""
        # MQDISC by itself would commit what is open. None of these can fail in a way that matters: a
        # connection that is broken already is backed out by the queue manager.
        failures = (MqError, self._mq.MQMIError, self._mq.PYIFError)
        with contextlib.suppress(*failures):
            self.backout()
        for opened in [*self._sources, *self._targets.values()]:
            with contextlib.suppress(*failures):
                opened.close()
        self._sources.clear()
        self._targets.clear()
        if self._handle is not None:
            with contextlib.suppress(*failures):
                self._handle.dlt()
            self._handle = None
        with contextlib.suppress(*failures):
            self._manager.disconnect()

    def _source(self, queue: Any, name: str, **options: Any) -> Source:
        if self._handle is None:
            with _calls(self._mq, "MQCRTMH"):
                self._handle = self._mq.MessageHandle(self._manager)
        source = IbmSource(self._mq, queue, name, self._handle, **options)
        self._sources.append(source)
        return source

    def _close_target(self, target: Target) -> None:
        opened = self._targets.pop(target)
        with contextlib.suppress(self._mq.MQMIError, self._mq.PYIFError):
            opened.close()

    def _open_target(self, target: Target) -> Any:
        opened = self._targets.get(target)
        if opened is None:
            if len(self._targets) >= OPEN_TARGETS:
                self._close_target(next(iter(self._targets)))
            constants = self._mq.CMQC
            if isinstance(target, QueueTarget):
                described = self._mq.OD(
                    ObjectName=target.queue.encode(), ObjectQMgrName=target.queue_manager.encode()
                )
            else:
                described = self._mq.OD(ObjectType=constants.MQOT_TOPIC)
                described.set_vs("ObjectString", target.topic.encode(), 0, 0, UTF8)
            with _calls(self._mq, f"MQOPEN {target}"):
                opened = self._mq.Queue(
                    self._manager, described, constants.MQOO_OUTPUT | constants.MQOO_FAIL_IF_QUIESCING
                )
            self._targets[target] = opened
        self._targets.move_to_end(target)
        return opened


class IbmSource:
    """A queue that is open for getting, or the queue behind a subscription."""

    def __init__(
        self,
        mq: ModuleType,
        queue: Any,
        name: str,
        handle: Any,
        *,
        backout_threshold: int = 0,
        backout_queue: str = "",
        whole_groups: bool = False,
        subscription: Any = None,
        keep: int = 0,
    ) -> None:
        self._mq = mq
        self._queue = queue
        self._handle = handle
        self._whole_groups = whole_groups
        self._subscription = subscription
        self._keep = keep
        self.name = name
        self.backout_threshold = backout_threshold
        self.backout_queue = backout_queue

    def get(self, wait_s: float = 0) -> MqMessage | None:
        """The next message, within the unit of work."""
        mq, constants = self._mq, self._mq.CMQC
        if self._queue is None:
            raise reasons.mq_error(reasons.HOBJ_ERROR, f"MQGET {self.name}")
        options = constants.MQGMO_SYNCPOINT | constants.MQGMO_FAIL_IF_QUIESCING
        options |= constants.MQGMO_PROPERTIES_IN_HANDLE
        if wait_s > 0:
            options |= constants.MQGMO_WAIT
        if self._whole_groups:
            options |= constants.MQGMO_LOGICAL_ORDER | constants.MQGMO_ALL_MSGS_AVAILABLE
        described = mq.MD()
        wanted = mq.GMO(Options=options, WaitInterval=int(wait_s * 1000), MsgHandle=self._handle.get_handle())
        try:
            with _calls(mq, f"MQGET {self.name}"):
                body = self._queue.get(None, described, wanted)
                properties = read_properties(mq, self._handle)
        except MqError as error:
            if error.reason == reasons.NO_MSG_AVAILABLE:
                return None
            raise
        return MqMessage(descriptor=_from_md(described), body=body, properties=properties)

    def close(self) -> None:
        """Let go of the queue."""
        if self._queue is None:
            return
        with _calls(self._mq, f"MQCLOSE {self.name}"):
            if self._subscription is None:
                self._queue.close()
            else:
                self._subscription.close(sub_close_options=self._keep, close_sub_queue=True)
        self._queue = None


UTF8 = 1208


def _put(mq: ModuleType, opened: Any, body: bytes, described: Any, options: Any) -> None:
    try:
        opened.put(body, described, options)
    except mq.MQMIError as error:
        if error.comp != _WARNING:  # with a warning, the message is in
            raise


@contextlib.contextmanager
def _calls(mq: ModuleType, call: str) -> Iterator[None]:
    try:
        yield
    except mq.MQMIError as error:
        raise reasons.mq_error(error.reason, call) from error
    except mq.PYIFError as error:  # the binding itself finds that there is no connection, or nothing open
        raise reasons.mq_error(reasons.HCONN_ERROR, call) from error


def _to_md(mq: ModuleType, descriptor: Mqmd) -> Any:
    described = mq.MD()
    for name in FIELDS:
        value = getattr(descriptor, name)
        setattr(described, name, value.encode() if isinstance(value, str) else value)
    return described


_BINARY = frozenset({"MsgId", "CorrelId", "AccountingToken", "GroupId"})


def _from_md(described: Any) -> Mqmd:
    fields = {name: getattr(described, name) for name in FIELDS}
    for name in FIELD_BYTES:
        if name not in _BINARY:
            fields[name] = _text(fields[name])
    return Mqmd(**fields)


def _text(value: bytes) -> str:
    """The text of a fixed field: it may end in blanks, or at a zero."""
    return value.split(b"\0", 1)[0].decode(errors="replace").rstrip()
