"""Makes an outgoing_link for every link that a client wants to receive on, and nodes for temporary queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters import MessageConverter, ReceivedRecord
from isthmus.edges.amqp.protocol.performatives import SETTLED
from isthmus.edges.amqp.protocol.terms import Error, Source, Target
from isthmus.edges.amqp.server.contract import PARTITION_NOT_EXISTS, Client, ReceiverRequest
from isthmus.edges.amqp.server.nodes import TEMPORARY_TOPIC, is_jms, lifetime_of
from isthmus.edges.amqp.server.receivers.addresses import COPY, Kind, Origin, origin_of
from isthmus.edges.amqp.server.receivers.admin import ReceiverAdmin
from isthmus.edges.amqp.server.receivers.browser import BrowserSource
from isthmus.edges.amqp.server.receivers.budget import BudgetedSource, ByteBudget
from isthmus.edges.amqp.server.receivers.filters import Filters, Position, filters_of, takes_long
from isthmus.edges.amqp.server.receivers.group import Commits, GroupSource, Reading, SentFrom
from isthmus.edges.amqp.server.receivers.outgoing_link import (
    Ended,
    KafkaOutgoingLink,
    Undeliverable,
    Wants,
    everything,
    skip,
    with_deliveries,
)
from isthmus.edges.amqp.server.receivers.queues import Queues
from isthmus.edges.amqp.server.receivers.record_source import RecordSource, Snapshot
from isthmus.edges.amqp.server.receivers.shared import SharedReaders
from isthmus.edges.amqp.server.receivers.subscriptions import (
    GLOBAL,
    Subscriptions,
    subscription_of,
    terms_of,
)
from isthmus.edges.amqp.server.receivers.temporary import LIMIT_BYTES, TemporaryForm, TemporaryQueues
from isthmus.edges.amqp.server.receivers.traced import TracedSource
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.errors import Refused, RefusedFailure, SoftFailure
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.consumer import COMMITTED
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord
from isthmus.telemetry.parts import QueueReport
from isthmus.telemetry.traces import Traces

T = TypeVar("T")

QUEUE_PREFIX: Final = "jms-queue:"
"""Before the topic in the name of a queue's share group."""
OUTCOMES: Final = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)


class KafkaOutgoingLinks:
    """Receivers on Kafka's topics. To be used on one event loop."""

    def __init__(
        self,
        kafka: Kafka,
        converter_of: Callable[[str], MessageConverter],
        *,
        temporary_topic: str,
        journal_topic: str | None = None,
        queue_views: bool = False,
        bare_is_queue: bool = False,
        auto_create: bool = False,
        partitions: int = 4,
        max_deliveries: int = 10,
        link_bytes: int = 32 * 2**20,
        total_bytes: int = 256 * 2**20,
        undeliverable: Undeliverable = skip,
        admin: KafkaAdmin | None = None,
        subscription_locks: NameLocks | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Without an ``admin`` to share, it has one of its own. For the bytes see `ByteBudget`.

        What lies in ``journal_topic`` when somebody subscribes is not for him, though it is published later.
        ``subscription_locks`` has one consumer receive from an unshared subscription, in all processes.
        """
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka) if admin is None else admin
        self._owns_admin = admin is None
        self._temporary_topic = temporary_topic
        self._journal_topic = journal_topic
        self._queue_views = queue_views
        self._bare_is_queue = bare_is_queue
        self._converter_of = converter_of
        self._groups = ReceiverAdmin(self._admin, auto_create=auto_create, partitions=partitions)
        self._subscriptions = Subscriptions(self._groups, subscription_locks or NameLocks())
        self._undeliverable = undeliverable
        self._budget = ByteBudget(link_bytes, total_bytes)
        self._traces = traces
        self._turns, self._conversions = Turns(), Turns()
        """Those who select do not keep others waiting."""
        self._queues = Queues(
            self._admin.client,
            undeliverable=undeliverable,
            max_deliveries=max_deliveries,
            turns=self._turns,
        )
        self._shared = SharedReaders(kafka, undeliverable=undeliverable)
        self._temporary = TemporaryQueues(
            kafka, temporary_topic, self._temporary_ends, self._overflow, turns=self._turns
        )
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="selectors")
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        """An outgoing_link for a link. Raises `Refused`, or `HardFailure` if Kafka does not answer."""
        asked = request.attach.source
        if not isinstance(asked, Source):
            return await self._open_to_unsubscribe(request)
        filters = await self._filters_of(asked)
        if asked.dynamic:
            asked = replace(asked, address=await self.create_node(asked, request.client))
        origin = origin_of(asked, bare_is_queue=self._bare_is_queue)
        if origin.kind is Kind.TEMPORARY:
            return self._open_temporary(request, asked, filters, origin)
        partitions = await self._groups.partitions(origin.topic, jms=origin.kind is not Kind.GROUP)
        supply, closed = await self._source_for(request, asked, origin, filters, partitions)
        own = _own(origin, filters, request)
        return KafkaOutgoingLink(
            request,
            self._budgeted(supply, asked),
            self._converter_of(origin.topic),
            _granted(asked, filters),
            wants=self._wants(origin, filters),
            unwanted_client=own,
            undeliverable=self._undeliverable,
            closed=closed,
            turns=self._turns_of(filters),
        )

    async def _filters_of(self, source: Source) -> Filters:
        """What the filters ask for. A long selector is read in a thread, for as long as that takes."""
        read = partial(filters_of, source.filter)
        if takes_long(source.filter):
            return await asyncio.get_running_loop().run_in_executor(self._aside, read)
        return await self._turns.run(read)

    def _turns_of(self, filters: Filters) -> Turns:
        return self._conversions if filters.selector is None else self._turns

    def _budgeted(self, supply: RecordSource, source: Source) -> BudgetedSource:
        if self._traces is not None:
            supply = TracedSource(supply, source.address or "", self._traces)
        return BudgetedSource(supply, self._budget)

    def _wants(self, origin: Origin, filters: Filters) -> Wants:
        """What the link itself leaves out: on a queue nothing, since that is for another receiver then."""
        if filters.selector is None or (origin.kind is Kind.QUEUE and not self._queue_views):
            return everything
        return filters.selector.wants

    async def create_node(self, terminus: Source | Target, client: Client) -> str:
        """A temporary queue, or topic: of JMS the connection's, any other its user's."""
        owner = client.connection_id if is_jms(terminus) else _user_of(client)
        is_topic = TEMPORARY_TOPIC in terminus.capabilities
        return await self._temporary.create(owner, topic=is_topic, lifetime=type(lifetime_of(terminus)))

    async def leave_node(self, address: str) -> None:
        """Remove a temporary queue, as soon as its lifetime policy says."""
        await self._temporary.leave(address)

    async def link_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        """Tell one more sender when a temporary queue is deleted."""
        await self._temporary.link(address, on_deleted)

    async def unlink_node(self, address: str, on_deleted: Callable[[], None]) -> None:
        """Forget a sender."""
        await self._temporary.unlink(address, on_deleted)

    def _open_temporary(
        self, request: ReceiverRequest, source: Source, filters: Filters, origin: Origin
    ) -> KafkaOutgoingLink:
        form, selector = TemporaryForm(), filters.selector

        def wants(record: PolledRecord) -> bool:
            try:
                return selector is None or selector.wants(_message(form, record))
            except SoftFailure:
                return True  # the link finds out, too, and puts it where it belongs

        supply = self._temporary.source(
            source.address or "",
            (request.client.connection_id, _user_of(request.client)),
            wants=None if selector is None else wants,
            browses=source.distribution_mode == COPY,
        )
        return KafkaOutgoingLink(
            request,
            self._budgeted(supply, source),
            form,
            _granted(source, filters),
            unwanted_client=_own(origin, filters, request),
            wants=everything if selector is None else selector.wants,
            undeliverable=self._undeliverable,
            turns=self._turns_of(filters),
        )

    @property
    def not_acknowledged(self) -> int:
        """How many acceptances of queues' messages Kafka did not take: those are delivered again."""
        return self._queues.not_acknowledged

    async def queues(self) -> list[QueueReport]:
        """What somebody receives from. Raises `HardFailure` when Kafka does not answer."""
        queues = [
            QueueReport("queue", queue.topic, queue.receivers, await self._groups.depth(group, queue.topic))
            for group, queue in self._queues.in_use().items()
        ]
        return queues + [
            QueueReport("subscription", group, receivers, await self._groups.backlog(group))
            for group, receivers in self._subscriptions.in_use().items()
        ]

    async def close(self) -> None:
        """Let go of Kafka, within a bounded time."""
        self._aside.shutdown(wait=False, cancel_futures=True)
        await self._queues.close()
        await self._shared.close()
        await self._temporary.close()
        if self._owns_admin:
            await self._admin.close()

    async def _temporary_ends(self) -> Mapping[int, int]:
        topic = self._temporary_topic
        return await self._groups.ends(topic, await self._groups.partitions(topic))

    def _overflow(self, record: ReceivedRecord) -> None:
        failure = RefusedFailure(f"nobody takes what is in the temporary queue, over {LIMIT_BYTES} bytes")
        task = asyncio.ensure_future(self._undeliverable(record, failure))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _source_for(
        self,
        request: ReceiverRequest,
        source: Source,
        origin: Origin,
        filters: Filters,
        partitions: Collection[int],
    ) -> tuple[RecordSource, Ended | None]:
        """Who reads for the link, and what to do when the client closes it."""
        topic = origin.topic
        commits = Commits.BEFORE if request.attach.snd_settle_mode == SETTLED else Commits.AFTER
        read = partial(Reading, topic=topic)
        match origin.kind:
            case Kind.GROUP:
                positions = _positions(filters.position, partitions)
                reading = read(group=origin.group, commits=commits, positions=positions)
                return GroupSource(self._kafka, reading), None
            case Kind.QUEUE:
                selector, group = filters.selector, f"{QUEUE_PREFIX}{topic}"
                if selector is not None and self._queue_views:
                    group, selector = f"{group}:{selector.digest}", None
                granted = await self._groups.begin_queue(group)
                return self._queues.source(
                    topic,
                    group,
                    convert=partial(_message, self._converter_of(topic)),
                    delivery_limit=granted.delivery_count_limit,
                    at_most_once=commits is Commits.BEFORE,
                    selector=selector,
                ), None
            case Kind.TOPIC:
                return await self._subscribe(request, source, topic, filters, partitions, commits)
            case _:
                group = f"{QUEUE_PREFIX}{topic}"
                await self._queues.flush(group)
                since, ends, states = await asyncio.gather(
                    self._now(), self._groups.ends(topic, partitions), self._groups.progress(group, topic)
                )
                return BrowserSource(self._kafka, topic, states, ends, since), None

    async def _subscribe(
        self,
        request: ReceiverRequest,
        source: Source,
        topic: str,
        filters: Filters,
        partitions: Collection[int],
        commits: Commits,
    ) -> tuple[RecordSource, Ended | None]:
        subscription = subscription_of(source, request.link.name, request.client)
        since = await self._now()
        if subscription is None:
            ends = await self._groups.ends(topic, partitions)
            alone = Reading(topic=topic, commits=Commits.NEVER, positions=ends, since=since)
            return GroupSource(self._kafka, alone), None
        group, terms = subscription.group, terms_of(source, topic, filters, request.client)
        is_new = await self._subscriptions.open(
            group,
            terms,
            partitions,
            on_lost=lambda refused: request.detach(Error(refused.condition, refused.description)),
        )
        reading = Reading(
            topic=topic, group=group, commits=commits, note=terms.note, since=since if is_new else None
        )
        if terms.shared and commits is Commits.AFTER:
            convert = partial(_message, self._converter_of(topic))
            return self._shared.source(reading, convert=convert), partial(self._leave_shared, group)
        return GroupSource(self._kafka, reading), partial(self._subscriptions.close, group)

    async def _leave_shared(self, group: str, *, detached: bool) -> None:
        await self._shared.leave(group)
        await self._subscriptions.close(group, detached=detached)

    async def _now(self) -> SentFrom | None:
        """This moment, by the journal."""
        topic = self._journal_topic
        if topic is None:
            return None
        return SentFrom(topic, await self._groups.ends(topic, await self._groups.partitions(topic)))

    async def _open_to_unsubscribe(self, request: ReceiverRequest) -> KafkaOutgoingLink:
        """What a client gets that asks for a subscription by its link's name alone: it ends it by a close."""
        shares_name = GLOBAL in request.attach.desired_capabilities
        group, topic = await self._subscriptions.find(
            request.link.name, request.client, shares_name=shares_name
        )
        capabilities = ("topic", "shared", "global") if shares_name else ("topic",)
        source = Source(topic, durable=2, expiry_policy="never", capabilities=capabilities)
        end = partial(self._subscriptions.end, group)
        return KafkaOutgoingLink(request, Snapshot(), self._converter_of(topic), source, closed=end)


def _message(converter: MessageConverter, record: PolledRecord) -> AmqpMessage:
    """The message of a record, as a selector sees it. Raises `SoftFailure`."""
    message = converter.to_amqp_message("", record.record)
    return with_deliveries(message, record.deliveries) if record.deliveries else message


def _user_of(client: Client) -> str:
    return f"user {client.identity.user}"


def _own(origin: Origin, filters: Filters, request: ReceiverRequest) -> str | None:
    """The client id whose messages a receiver does not want; on a queue JMS has no such wish."""
    if not filters.no_local or origin.kind in (Kind.QUEUE, Kind.BROWSER):
        return None
    request.sign()
    return request.client.container_id


def _granted(asked: Source, filters: Filters) -> Source:
    return replace(asked, filter=filters.honoured, outcomes=OUTCOMES, default_outcome=asked.default_outcome)


def _positions(position: Position, partitions: Collection[int]) -> dict[int, int] | None:
    if position.partition is None:
        return None
    if position.partition not in partitions:
        raise Refused(PARTITION_NOT_EXISTS, "Specified partition doesn't exist")
    return {position.partition: COMMITTED if position.offset is None else position.offset}
