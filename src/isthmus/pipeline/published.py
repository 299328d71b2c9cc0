"""What is published already, in the form in which the router's plan leaves it out.

By its position each record of the sources has a number, which stands for the places where the record is. So a
look-up takes the same time however many there are, and a record that comes later costs one comparison. The
code that Spark generates for it is the same whatever is published: that of a rehearsal serves the batch that
catches up, and that of the batch the query after it. ::

    offset                100  101  102  103  104
    places of partition 0   1    1    2    0    1      1: topic a    2: topic a, and an event    0: nowhere
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isthmus.journal import layout
from isthmus.routing.plan import RoutingPlan
from isthmus.telemetry.events import SAMPLE

Partition = tuple[str, int]
"""A topic, and the number of a partition of it."""
Position = tuple[str, int, int]
"""Topic, partition and offset of a record of the sources."""
Place = tuple[str, str]
"""A topic; and of a dead letter the route that it failed on, since a record may fail on two."""
Found = Mapping[Position, Set[Place]]

POSITION = {"source_topic": "topic", "source_partition": "partition", "source_offset": "offset"}
"""What `Published.leave_out` calls the position of the record that a row comes from, and what Spark does."""
_SEPARATOR = "\0"


class Published:
    """What a start has to heed: what is published already, and which topics are gone."""

    def __init__(
        self,
        plan: RoutingPlan,
        partitions: Iterable[Partition],
        found: Found,
        missing_topics: frozenset[str] = frozenset(),
    ) -> None:
        """``partitions`` are all those of the sources."""
        self.missing_topics = missing_topics
        """Topics that messages are to go to by the direct route, and that cannot be written any more."""
        self.found = found
        self._plan = plan
        self._numbers: dict[tuple[frozenset[Place], bool], int] = {}
        numbers: dict[Partition, dict[int, int]] = {each: {} for each in partitions}
        for (topic, partition, offset), places in found.items():
            kind = frozenset(places), self._is_complete(offset, places)
            numbers[topic, partition][offset] = self._numbers.setdefault(kind, len(self._numbers) + 1)
        self._width = max(1, (len(self._numbers).bit_length() + 7) // 8)
        # What is empty begins behind its end: were they the same, Spark would generate other code.
        self._begins = {each: min(known, default=1) for each, known in numbers.items()}
        self.ends = {each: max(known, default=-1) + 1 for each, known in numbers.items()}
        """By partition of the sources: where all that is published is before."""
        self._bytes = {each: self._packed(each, known) for each, known in numbers.items()}

    @classmethod
    def nothing(cls, plan: RoutingPlan, partitions: Iterable[Partition]) -> Self:
        """Leaves nothing out, by the same code."""
        return cls(plan, partitions, {})

    def drop_complete(self, rows: DataFrame) -> DataFrame:
        """The rows of Spark's Kafka source without those that surely have nothing left to publish."""
        complete = [number for (_, whole), number in self._numbers.items() if whole]
        topic, partition, offset = (F.col(name) for name in POSITION.values())
        known = F.array_contains(F.expr(self._list(complete)), self._number(topic, partition, offset))
        return rows.where(~self._is_between(topic, partition, offset) | ~known)

    def leave_out(self, records: DataFrame) -> DataFrame:
        """The records for the sink, which have a `POSITION`, without those that are published, and without
        their positions. What one partition held keeps its order."""
        position = [F.col(name) for name in POSITION]
        # The bridge's own header comes last: a dead letter has all those of the record that it was before it.
        place = F.array_position(F.reverse(F.col("headers")["key"]), layout.ERROR_ROUTE)
        route = F.get(F.reverse("headers"), place.cast("int") - 1)["value"].cast("string")
        named = F.concat(F.col("topic"), F.lit(_SEPARATOR), F.coalesce(route, F.lit("")))
        with_it = F.try_element_at(self._numbers_by_place(), named)
        there = F.coalesce(F.array_contains(with_it, self._number(*position)), F.lit(False))
        return records.where(~self._is_between(*position) | ~there).drop(*POSITION)

    def _is_complete(self, offset: int, places: Set[Place]) -> bool:
        """Whether there surely is no other place for the record. Failures, samples and traces have events."""
        plan = self._plan
        others = any(not route.is_direct and not route.for_destination for route in plan.routes)
        most = 2 if plan.keep_destinations and others else 1
        special = (plan.dead_letter_topic, plan.events_topic)
        plain = all(not route and topic not in special for topic, route in places)
        return len(places) == most and plain and offset % SAMPLE != 0 and not plan.traced

    def _packed(self, partition: Partition, known: Mapping[int, int]) -> bytearray:
        begin = self._begins[partition]
        packed = bytearray(max(0, self.ends[partition] - begin) * self._width)
        for offset, number in known.items():
            at = (offset - begin) * self._width
            packed[at : at + self._width] = self._encoded(number)
        return packed

    def _encoded(self, number: int) -> bytes:
        return number.to_bytes(self._width)

    def _is_between(self, topic: Column, partition: Column, offset: Column) -> Column:
        """Whether the first and the last record that is published are around it; false for all that come
        later."""
        begin, end = (_by_partition(_integers(each), topic, partition) for each in (self._begins, self.ends))
        return F.coalesce((offset < end) & (offset >= begin), F.lit(False))

    def _number(self, topic: Column, partition: Column, offset: Column) -> Column:
        begin = _by_partition(_integers(self._begins), topic, partition)
        packed = _by_partition(
            {each: _written(known) for each, known in self._bytes.items()}, topic, partition
        )
        at = (offset - begin) * self._width + 1
        return F.substring(packed, at.try_cast("int"), F.lit(self._width))  # null for what is far behind

    def _numbers_by_place(self) -> Column:
        """For each place, the numbers that stand for it and maybe others."""
        by_place: dict[Place, set[int]] = {}
        for (places, _), number in self._numbers.items():
            for place in places:
                for each in (place, *self._other_outcomes(*place)):
                    by_place.setdefault(each, set()).add(number)
        entries = []
        for place, numbers in by_place.items():
            named = f"decode({_written(_SEPARATOR.join(place).encode())}, 'UTF-8')"
            entries += [named, self._list(sorted(numbers))]
        return F.expr(f"cast(map({', '.join(entries)}) as map<string, array<binary>>)")

    def _list(self, numbers: Iterable[int]) -> str:
        """Numbers that stand for places, in Spark's SQL."""
        written = ", ".join(_written(self._encoded(number)) for number in numbers)
        return f"cast(array({written}) as array<binary>)"

    def _other_outcomes(self, topic: str, route: str) -> Iterator[Place]:
        """Where what was published might go by the plan as it is now, which need not be that of the last run.

        A dead letter might be taken by the topic of its route, and the other way round.
        """
        for each in self._plan.routes:
            if route and each.name == route and each.topic:
                yield each.topic, ""
            elif not route and each.topic == topic and self._plan.dead_letter_topic:
                yield self._plan.dead_letter_topic, each.name


def _integers(offsets: Mapping[Partition, int]) -> dict[Partition, str]:
    return {partition: f"{offset}L" for partition, offset in offsets.items()}


def _by_partition(values: Mapping[Partition, str], topic: Column, partition: Column) -> Column:
    """A value, given in SQL, of the partition that a record is in."""
    chosen = F.lit(None)
    for name in {topic for topic, _ in values}:
        count = 1 + max(number for each, number in values if each == name)
        written = ", ".join(values.get((name, number), "null") for number in range(count))
        chosen = F.when(topic == name, F.get(F.expr(f"array({written})"), partition)).otherwise(chosen)
    return chosen


def _written(octets: bytes | bytearray) -> str:
    """Bytes in Spark's SQL."""
    return f"X'{octets.hex()}'"
