"""What a replay does with each dead letter: where it is to be written again, as which record, or why not.

Most go through the journal, as they arrived: those that failed on their way in, in the router, or with the
system that an outbox is for. What no receiver of a topic took goes back to that topic. Nothing is written
here; `isthmus.journal.replay` does that.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from isthmus.config.judgement.check import TopicFacts
from isthmus.config.judgement.routing_plan import address_topic, routing_plan, topics_to_describe
from isthmus.config.model.settings import Settings
from isthmus.config.model.values import is_topic_name
from isthmus.converters.conversion_headers import conversion_headers
from isthmus.errors import SoftFailure
from isthmus.journal import layout
from isthmus.journal.dead_letter import DeadLetter, replays_of, with_history
from isthmus.journal.layout import AddressTopic, Entry, KafkaHeaders, Op, Record
from isthmus.journal.topic import journal_topic
from isthmus.kafka.blocking import describe, read_one, topic_names
from isthmus.kafka.options import Kafka
from isthmus.kafka.received import record_of
from isthmus.routing.decide import decide
from isthmus.routing.plan import Outcome
from isthmus.routing.reserved import QUARANTINE
from isthmus.routing.route import DESTINATIONS, DIRECT, topic_of_address
from isthmus.routing.size import record_size


class State(StrEnum):
    """What became of a dead letter."""

    REPLAYED = "replayed"
    DROPPED = "dropped"
    QUARANTINED = "quarantined"
    LEFT = "left"
    """Nothing: it cannot be replayed."""


class Step(NamedTuple):
    """What a replay does with a dead letter, and why."""

    dead: DeadLetter
    state: State
    reason: str = ""
    topic: str = ""
    partition: int | None = None
    record: Record | None = None


class Planner:
    """Says what a replay does with each dead letter, and writes nothing."""

    def __init__(self, settings: Settings, kafka: Kafka, *, limit: int | None) -> None:
        """``limit``: what was replayed so often is quarantined; None quarantines nothing."""
        self._settings = settings
        self._kafka = kafka
        self._limit = limit
        names = topic_names(kafka) if settings.message_convert else set()
        facts = describe(kafka, topics_to_describe(settings, names))
        self._plan = routing_plan(settings, facts)
        self._journal = journal_topic(settings.journal, facts.get(settings.journal.topic))
        self._facts: dict[str, TopicFacts | None] = dict(facts)

    @property
    def largest_record(self) -> int:
        """How many bytes a record has at most that is written."""
        limits = [each.max_message_bytes or 0 for each in self._facts.values() if each is not None]
        return max(limits, default=0)

    def step(self, dead: DeadLetter, now_ms: int) -> Step:
        """What to do with a dead letter."""
        try:
            topic, partition, record = self._origin(dead)
        except _Left as left:
            return Step(dead, State.LEFT, str(left))
        if self._limit is not None and replays_of(record) >= self._limit:
            reason = f"it failed again after {replays_of(record)} of {self._limit} replays"
            return Step(dead, State.QUARANTINED, reason, dead.topic + QUARANTINE, None, dead.record)
        record = with_history(record, dead, now_ms)
        where = f"back to {topic}"
        if topic == self._settings.journal.topic:
            refused, where = self._foreseen(record, now_ms)
            if refused:
                return Step(dead, State.LEFT, where)
        elif route := self._route_of_source(topic, partition, record, now_ms):
            why = f"{topic} is a source topic, from which route {route} would take it a second time"
            return Step(dead, State.LEFT, f"{why}: drop it, or take that out of routing.source.topics first")
        limit = self._topic_facts(topic)
        if limit is not None and record_size(record) > (limit.max_message_bytes or 2**31):
            return Step(dead, State.LEFT, f"with its history it is larger than {topic} takes")
        return Step(dead, State.REPLAYED, where, topic, partition, record)

    def _origin(self, dead: DeadLetter) -> tuple[str, int, Record]:
        """Where a dead letter is to be written again, and the record for that."""
        settings, source = self._settings, dead.source
        if dead.entry is not None:
            return self._journaled(dead.original, dead.route)
        if source is not None and dead.of_outbox:
            # It failed behind the router: the message as it arrived is where it was read from.
            found = read_one(self._kafka, *source)
            if found is None:
                raise _Left(f"the message that it was made of, {dead.id}, is no longer there")
            record = record_of(found)
            if source[0] in settings.routing.source_topics:
                record = _adopted(source[0], record, dead)
            return self._journaled(record, dead.route, of_outbox=True)
        if source is not None and dead.route and source[0] in settings.routing.source_topics:
            return self._journaled(_adopted(source[0], dead.original, dead), dead.route)
        if source is not None and not dead.route and source[0] != settings.journal.topic:
            # It failed with a receiver: that is where it goes.
            facts = self._topic_facts(source[0])
            if facts is None:
                raise _Left(f"its topic {source[0]} is not there")
            return source[0], source[1] % facts.partitions, dead.original
        raise _Left("it is not laid out as a record of the journal")

    def _journaled(self, record: Record, route: str, *, of_outbox: bool = False) -> tuple[str, int, Record]:
        """The record as the journal takes it now: its topic is looked up again, and converters get what the
        routes of today need."""
        try:
            entry = layout.decode(record)
        except SoftFailure as error:
            raise _Left(f"it is malformed: {error}") from None
        message = entry.message
        if entry.op is not Op.ADD or not message.address:
            raise _Left("nobody knows where it was sent")
        by_address = route == DIRECT or route.startswith(DESTINATIONS)
        was_kept = entry.topic is not None and entry.topic.is_destination
        if was_kept and by_address and (taken_by := self._other_route(record)):
            raise _Left(f"route {taken_by} takes it too, and would publish it again")
        # What goes to a route and to a JMS destination is one of the two here; the other had its own outcome.
        # The route to an outbox may be gone, and have no name then; there was one.
        if of_outbox and was_kept and self._plan.keep_destinations and self._other_route(record) is None:
            raise _Left("no route takes it any more, and its JMS destination had a copy of its own")
        keep = was_kept and (by_address or not (route or of_outbox))
        topic = self._address_topic(message.address, keep=keep)
        try:
            conversion: KafkaHeaders = conversion_headers(message, json=self._settings.uses_json)
        except SoftFailure:
            conversion = entry.conversion
        again = layout.encode(Entry(Op.ADD, replace(message, headers={}), conversion=conversion, topic=topic))
        partition = self._journal.partitions.of_committed(message.session)
        return (
            self._settings.journal.topic,
            partition,
            Record(record.key, record.value, [*again.headers, *layout.own_headers(record.headers)]),
        )

    def _other_route(self, record: Record) -> str | None:
        """The route that takes the message beside its JMS destination."""
        decisions = decide(self._plan, self._plan.journal_topic, 0, 0, record, now_ms=0)
        names = [each.route.name for each in decisions if each.route is not None]
        return next((name for name in names if name != DIRECT and not name.startswith(DESTINATIONS)), None)

    def _route_of_source(self, topic: str, partition: int, record: Record, now_ms: int) -> str | None:
        """The route that takes what is written to the topic, if the router reads it."""
        if topic not in self._settings.routing.source_topics:
            return None
        decisions = decide(self._plan, topic, partition, 0, record, now_ms=now_ms)
        return next((each.route.name for each in decisions if each.route is not None), None)

    def _foreseen(self, record: Record, now_ms: int) -> tuple[bool, str]:
        """Whether to leave it, since it would be lost or stop the bridge; and what becomes of it."""
        decisions = decide(self._plan, self._plan.journal_topic, 0, 0, record, now_ms=now_ms)
        for each in decisions:
            if each.outcome is Outcome.STOPPED:
                return True, f"it would stop the bridge: {each.error}"
            if each.outcome is Outcome.SKIPPED:
                return True, f"it fails again, and would be skipped: {each.error}"
            if each.outcome is Outcome.UNMATCHED:
                return True, "no route takes it"
            if each.outcome is Outcome.EXPIRED:
                return True, "its time is over (JMSExpiration)"
            if each.route is None and each.error is None:
                return True, f"the router leaves it: {each.outcome}"
        failed = next((each.error for each in decisions if each.error is not None), None)
        if failed is not None:
            return False, f"it fails again: {failed}"
        return False, f"to {', '.join(each.topic or '' for each in decisions)}"

    def _address_topic(self, address: str, *, keep: bool) -> AddressTopic | None:
        name = topic_of_address(address)
        if not (keep or self._settings.message_convert) or name in self._settings.reserved_topics:
            return None
        facts = self._topic_facts(name) if is_topic_name(name) else None
        return None if facts is None else address_topic(name, facts, keep=keep)

    def _topic_facts(self, name: str) -> TopicFacts | None:
        if name not in self._facts:
            self._facts[name] = describe(self._kafka, [name]).get(name)
        return self._facts[name]


class _Left(Exception):
    """Why a dead letter cannot be replayed."""


def _adopted(topic: str, record: Record, dead: DeadLetter) -> Record:
    """The journal record of a record of a source topic. The journal takes none without a key."""
    encoded = layout.encode(Entry(Op.ADD, replace(layout.adopt(topic, record), session=topic)))
    return encoded._replace(key=record.key or (dead.id or dead.position).encode())
