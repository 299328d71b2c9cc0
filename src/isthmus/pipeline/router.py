"""The router: from journal records to the records that are published, as one native Spark plan.

In: rows of Spark's Kafka source. Out: rows for its Kafka sink, ``topic, key, value, headers``. On the way
every row gets a route, a key, a converted value and an outcome, and ``observe`` counts the outcomes. A row
that two routes take becomes two.
There is no Python per record, no UDF and no ``foreachBatch``, so that the plan can run in real-time mode.

`isthmus.routing.decide` says the same in plain Python, one record at a time: read that for the rules.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import reduce
from itertools import groupby
from threading import Lock
from typing import TypeVar

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isthmus.converters import NoBody
from isthmus.converters import columns as converters
from isthmus.converters.jms import DESTINATION, ENCODED
from isthmus.errors import (
    ConversionFailure,
    DecodeError,
    DestinationFailure,
    KeyFailure,
    OversizeFailure,
)
from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns, kafka_header, kafka_headers, no_headers
from isthmus.message import NON_PERSISTENT
from isthmus.pipeline import measures
from isthmus.pipeline.measures import code
from isthmus.pipeline.own_converter import converted_by_users
from isthmus.pipeline.published import POSITION, Published
from isthmus.pipeline.steps import Transformation, recorded
from isthmus.routing import columns as routing
from isthmus.routing import size
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.route import DIRECT, OnError, Route
from isthmus.telemetry.events import SAMPLE

STOP_MARK = "isthmus-stop:"
"""What begins the message of the error that policy ``stop`` raises; JSON follows."""

WORTH_A_LOOK_UP = 16
"""So many comparisons of an address cost more than to look it up."""

LONGEST_REASON = 1_000
"""What is longer in an event is cut off there."""

T = TypeVar("T", bound=Hashable)


def route(rows: DataFrame, plan: RoutingPlan, published: Published | None = None) -> DataFrame:
    """The records to publish for rows of Spark's Kafka source, without those that are published.

    A soft failure under ``stop`` is an error.
    """
    if published is None:
        return _columns.decide(plan)(rows).transform(_columns.publish(plan))
    decided = published.drop_complete(rows).transform(_columns.decide(plan))
    return published.leave_out(decided.transform(_columns.publish(plan, POSITION)))


def get_ready(plan: RoutingPlan) -> None:
    """Make the columns that `route` needs to leave out what is published: a start then waits for less."""
    _columns.decide(plan)
    _columns.publish(plan, POSITION)


class _Columns:
    """The columns of the plans that were used last. A query's start waits while they are made."""

    def __init__(self) -> None:
        self._lock = Lock()  # who needs what another thread is making waits for that
        self._made: deque[tuple[Hashable, RoutingPlan, Mapping[str, str], Transformation]] = deque(maxlen=8)

    def decide(self, plan: RoutingPlan) -> Transformation:
        """From rows of Spark's Kafka source to their outcomes."""
        return self._recall("decide", plan, {}, lambda rows: decide(rows, plan, _message(plan)))

    def publish(self, plan: RoutingPlan, kept: Mapping[str, str] | None = None) -> Transformation:
        """From outcomes to records."""
        kept = kept or {}
        return self._recall(
            "publish", plan, kept, lambda decided: _publish(decided, plan, _message(plan), kept)
        )

    def _recall(
        self, what: str, plan: RoutingPlan, kept: Mapping[str, str], make: Transformation
    ) -> Transformation:
        if any(route.has_own_converter for route in plan.routes):
            return make  # which has to know the schema of the rows
        key = what, id(SparkContext._gateway)  # a column is one of its JVM's
        with self._lock:
            for known, of_plan, with_kept, steps in self._made:
                if (known, of_plan, with_kept) == (key, plan, kept):
                    return steps
            steps = recorded(make)
            self._made.append((key, plan, kept, steps))
            return steps


_columns = _Columns()


def _message(plan: RoutingPlan) -> MessageColumns:
    return MessageColumns(plan.journal_topic, other_topics=bool(plan.source_topics))


def decide(rows: DataFrame, plan: RoutingPlan, message: MessageColumns) -> DataFrame:
    """The rows that are messages, each with its outcome and with what would be published.

    Of the rows that are none there are those that the sample falls on: they tell how far the router is.
    """
    sampled = F.col("offset") % SAMPLE == 0
    interpreted = {"expired": _expired(message), "started_ns": F.when(sampled, measures.now_ns())}
    is_message = ~message.tombstone & (F.col("defect").isNotNull() | (message.op == layout.Op.ADD.value))
    decided = (
        message.read(rows, interpreted, tombstones=sampled)
        .withColumn("defect", message.defect)
        .withColumn("is_message", F.coalesce(is_message, F.lit(False)))
        .where(F.col("is_message") | sampled)
        .withColumn("defect", F.when(F.col("is_message"), F.col("defect")))
        .withColumn("aside", _aside(plan, message))
        .withColumn("route", _first_match(plan, message))
        .transform(lambda routed: _with_destinations(routed, plan, message))
        .transform(lambda routed: converted_by_users(routed, plan))
        .withColumns(_conversion(plan, message))
        .withColumns(_checks(plan, message))
        .withColumn("error", _error(plan, message))
        .withColumn("outcome", _outcome(plan))
        .withColumn("dead_letter_headers", _dead_letter_headers(plan, message))
    )
    if plan.dead_letter_topic in plan.max_message_bytes:
        decided = decided.withColumns(_oversize_dead_letters(plan))
    return decided


def _publish(
    decided: DataFrame, plan: RoutingPlan, message: MessageColumns, kept: Mapping[str, str] | None = None
) -> DataFrame:
    """The records for Spark's Kafka sink; every outcome is counted on the way.

    With ``kept`` they have further columns of the rows that they come from, by their new names.
    """
    kept = kept or {}
    events = {"event": _event(plan, message), "id": message.stable_id} if plan.events_topic else {}
    to_publish = decided.select(
        "outcome",
        "route",
        "timestamp",
        "started_ns",
        _for_outcome(
            published=F.col("new_topic"),
            dead_lettered=F.lit(plan.dead_letter_topic),
            stopped=_stop(plan, message),
        ).alias("topic"),
        _for_outcome(published=F.col("new_key"), dead_lettered=F.col("key")).alias("key"),
        _for_outcome(published=F.col("new_value"), dead_lettered=F.col("value")).alias("value"),
        _for_outcome(published=F.col("new_headers"), dead_lettered=F.col("dead_letter_headers")).alias(
            "headers"
        ),
        *([_partition().alias("partition")] if _senders_choose(plan) else []),
        *(column.alias(name) for name, column in events.items()),
        *(F.col(old).alias(new) for new, old in kept.items()),
    )
    counted = to_publish.observe(measures.NAME, *measures.aggregates(len(plan.routes)))
    columns = ("topic", "key", "value", "headers", *(["partition"] if _senders_choose(plan) else []), *kept)
    with_events = _with_events(counted, plan, kept) if plan.events_topic else counted
    return with_events.where(F.col("topic").isNotNull()).select(*columns)


def _event(plan: RoutingPlan, message: MessageColumns) -> Column:
    """What there is to tell of the row, but for the time that it took; see `isthmus.telemetry.events`."""
    outcomes = F.array(*[F.lit(each.value) for each in Outcome])
    failed = F.col("outcome").isin(code(Outcome.SKIPPED), code(Outcome.DEAD_LETTERED))
    to_tell = failed | F.col("started_ns").isNotNull()
    trace = F.lit(None).cast("string")
    if plan.traced:
        trace = F.when(F.col("outcome") != code(Outcome.IGNORED), message.sampled_trace)
        to_tell = to_tell | trace.isNotNull()
    event = F.struct(
        message.stable_id.alias("position"),
        F.get(outcomes, F.col("outcome")).alias("outcome"),
        _listed(plan, lambda route: route.name).cast("string").alias("route"),
        F.when(failed, F.col("error.code")).alias("code"),
        F.when(failed, F.left(F.col("error.message"), F.lit(LONGEST_REASON))).alias("reason"),
        trace.alias("traceparent"),
    )
    return F.when(to_tell, event)


def _with_events(counted: DataFrame, plan: RoutingPlan, kept: Collection[str]) -> DataFrame:
    """The records, and behind each that has something to tell an event.

    It reads the clock again: everything before `observe` is worked out by then.
    """
    event, has_record = F.col("event"), F.col("topic").isNotNull()
    outputs = (
        F.when(event.isNull(), F.array(F.lit(False)))
        .when(has_record, F.array(F.lit(False), F.lit(True)))
        .otherwise(F.array(F.lit(True)))
    )
    measured = F.col("started_ns").isNotNull()
    told = F.struct(
        *(
            event[name].alias(name)
            for name in ("position", "outcome", "route", "code", "reason", "traceparent")
        ),
        F.when(measured, measures.now_ms() - F.unix_millis("timestamp")).alias("age_ms"),
        F.when(measured, measures.now_ns() - F.col("started_ns")).alias("routing_ns"),
        F.when(measured | event["traceparent"].isNotNull(), F.unix_millis("timestamp")).alias("taken_ms"),
        F.when(measured, F.octet_length("value")).alias("bytes"),
    )
    marks = kafka_headers(
        {
            layout.ORIGIN: F.lit(plan.bridge_id),
            layout.STABLE_ID: F.col("id"),
            layout.ERROR_ROUTE: F.coalesce(event["route"], F.lit("")),
        }
    )

    def either(name: str, of_event: Column) -> Column:
        return F.when(F.col("is_event"), of_event).otherwise(F.col(name)).alias(name)

    return counted.withColumn("is_event", F.explode(outputs)).select(
        either("topic", F.lit(plan.events_topic)),
        either("key", F.lit(None).cast("binary")),
        either("value", F.to_json(told).cast("binary")),
        either("headers", marks),
        *([either("partition", F.lit(None).cast("int"))] if _senders_choose(plan) else []),
        *kept,
    )


def _aside(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Why a message is left aside before any route is tried; null when it is not."""
    aside = (
        F.when(F.col("defect").isNotNull(), None)
        .when(~F.col("is_message"), code(Outcome.IGNORED))
        .when(message.published_by(plan.bridge_id), code(Outcome.LOOPED))
        .when(F.col("expired"), code(Outcome.EXPIRED))
    )
    if not plan.propagate_non_durable:
        aside = aside.when(message.header("DeliveryMode") == NON_PERSISTENT, code(Outcome.NON_DURABLE))
    return aside


def _expired(message: MessageColumns) -> Column:
    """Whether the time of a message of the journal is over; null when it has no end.

    It reads the clock, so it stands where Spark interprets: see `MessageColumns.read`.
    """
    place = F.array_position(F.col("headers")["key"], layout.HEADER_PREFIX + "Expiration")
    text = F.get("headers", place.cast("int") - 1)["value"].cast("string")
    end_ms = F.when(text.rlike(rf"\A{layout.EXPIRATION}\z"), text.cast("long"))
    return F.when(message.journaled & (place > 0), (end_ms > 0) & (end_ms <= measures.now_ms()))


def _first_match(plan: RoutingPlan, message: MessageColumns) -> Column:
    """The place in the plan of the first route that takes the message; null when none does."""
    none = F.lit(None).cast("int")
    found = none
    for step in reversed(_steps(plan)):
        if isinstance(step, dict):
            found = F.coalesce(routing.look_up(step, message.address), found)
            continue
        cases = [(_takes(plan.routes[place], message), F.lit(place)) for place in step]
        found = reduce(lambda chain, case: chain.when(*case), cases[1:], F.when(*cases[0])).otherwise(found)
    return F.when(F.col("defect").isNotNull() | F.col("aside").isNotNull(), none).otherwise(found)


def _takes(route: Route, message: MessageColumns) -> Column:
    takes = routing.matches(route.predicate, message.address, message.header)
    return takes & message.journaled if route.is_direct else takes


def _steps(plan: RoutingPlan) -> list[dict[str, int] | list[int]]:
    """In which order to look for a route: in tables, by address, or at one place after the other."""

    def address(place: int) -> str | None:
        route = plan.routes[place]
        return None if route.is_direct else routing.address_of(route.predicate)

    steps: list[dict[str, int] | list[int]] = []
    for has_address, group in groupby(range(len(plan.routes)), lambda place: address(place) is not None):
        places = list(group)
        if has_address and len(places) >= WORTH_A_LOOK_UP:
            # The first of several routes for an address takes it.
            steps.append({address(place) or "": place for place in reversed(places)})
        elif steps and isinstance(steps[-1], list):
            steps[-1] += places
        else:
            steps.append(places)
    return steps


def _with_destinations(routed: DataFrame, plan: RoutingPlan, message: MessageColumns) -> DataFrame:
    """The rows, and once more those that also go to the JMS destination that they were sent to."""
    if not plan.keep_destinations:
        return routed
    route, destination = F.col("route"), F.lit(len(plan.routes) - 1)
    for place, each in enumerate(plan.routes):
        if each.for_destination:
            destination = F.when(message.topic_name == each.topic, F.lit(place)).otherwise(destination)
    # Whether messages that are not durable are routed says nothing of who receives from their address.
    deliverable = F.coalesce("aside", F.lit(code(Outcome.NON_DURABLE))) == code(Outcome.NON_DURABLE)
    kept = message.is_destination & F.col("defect").isNull() & deliverable
    there_already = _listed(plan, lambda route: route.topic) == message.topic_name
    routes = (
        F.when(~kept | there_already, F.array(route))
        .when(route.isNull() | _is_direct(plan), F.array(destination))
        .otherwise(F.array(route, destination))
    )
    return routed.withColumn("route", F.explode(routes))


def _of_route(plan: RoutingPlan, choice: Callable[[Route], T], meaning: Callable[[T], Column]) -> Column:
    """A column that depends on the row's route: what the choice of its route means. Null without a route."""
    places: dict[T, list[int]] = defaultdict(list)
    for place, route in enumerate(plan.routes):
        places[choice(route)].append(place)
    found = F.when(F.col("route").isNull(), None)
    for chosen, taken_by in places.items():
        taken = F.col("route").isin(taken_by) if len(places) > 1 else F.lit(True)
        found = found.when(taken, meaning(chosen))
    return found


def _listed(plan: RoutingPlan, value: Callable[[Route], str | int | None]) -> Column:
    """A value of the row's route, found by its place: far shorter code than a case for each route."""
    written = ", ".join(_literal(value(route)) for route in plan.routes)
    # As one text: a thousand routes would be a thousand calls for each of these.
    return F.get(F.expr(f"array({written})"), F.col("route"))


def _literal(value: str | int | None) -> str:
    """A value in Spark's SQL."""
    match value:
        case None:
            return "null"
        case str():
            return f"decode(X'{value.encode().hex()}', 'UTF-8')"  # whatever is in it, nothing is quoted
    return str(value)


def _conversion(plan: RoutingPlan, message: MessageColumns) -> dict[str, Column]:
    """What is to be published for a row with a route."""

    def key(route: tuple[str | None, bool, bool, bool]) -> Column:
        header, is_direct, chosen_by_sender, by_user = route
        if header is not None:
            return message.header_bytes(header)
        if by_user:
            return F.col("by_user.key").cast("binary")
        asked_for = message.conversion(layout.KEY)
        fallback = F.lit(None).cast("binary") if is_direct else F.col("key")
        return F.coalesce(asked_for, fallback) if chosen_by_sender else F.col("key")

    def value(form: tuple[str, NoBody]) -> Column:
        return (
            F.col("by_user.value") if ":" in form[0] else converters.convert(form[0], message, form[1]).value
        )

    def headers(kept: str) -> Column:
        marks = _marks(plan, message)
        name, value = ENCODED
        encoded = F.concat(F.array(kafka_header(name, F.lit(value))), marks)
        kinds = {
            "jms": F.concat(message.own_headers, marks),
            DESTINATION: F.concat(
                message.own_headers, F.when(converters.is_encoded(message), encoded).otherwise(marks)
            ),
            "user": F.concat(message.trace, F.col("by_user.headers"), marks, message.sender),
        }
        return kinds.get(kept, F.concat(message.trace, marks, message.sender))

    def kept(route: Route) -> str:
        return "user" if route.has_own_converter else route.convert if route.has_jms_headers else ""

    topics = _listed(plan, lambda route: route.topic or None)
    if _has_direct(plan):
        by_address = F.coalesce(message.topic_name, F.translate(message.address, "/", "."))
        topics = F.coalesce(topics, F.when(F.col("route").isNotNull(), by_address))
    return {
        "new_topic": topics,
        "new_key": _of_route(
            plan,
            lambda route: (route.key, route.is_direct, not route.has_jms_headers, route.has_own_converter),
            key,
        ).cast("binary"),
        "new_value": _of_route(plan, lambda route: (route.convert, route.no_body), value).cast("binary"),
        "new_headers": _of_route(plan, kept, headers),
    }


def _has_direct(plan: RoutingPlan) -> bool:
    return any(route.is_direct for route in plan.routes)


def _senders_choose(plan: RoutingPlan) -> bool:
    """Whether a message may name the partition that it goes to."""
    return not all(route.has_jms_headers for route in plan.routes)


def _partition() -> Column:
    """What the sender asks for. A dead letter goes anywhere."""
    return F.when(F.col("outcome") == code(Outcome.PUBLISHED), F.col("new_partition"))


def _marks(plan: RoutingPlan, message: MessageColumns) -> Column:
    """What tells of every record where it came from, and of one in an outbox where it goes."""
    marks = kafka_headers({layout.ORIGIN: F.lit(plan.bridge_id), layout.STABLE_ID: message.stable_id})
    if all(route.destination is None for route in plan.routes):
        return marks
    destination = _listed(plan, lambda route: route.destination)
    onward = kafka_headers({layout.DESTINATION: destination})
    return F.when(destination.isNull(), marks).otherwise(F.concat(marks, onward))


def _error(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Code and message of the soft failure; null when there is none."""

    def error(code: Column | str, text: Column | str) -> Column:
        columns = [each if isinstance(each, Column) else F.lit(each) for each in (code, text)]
        return F.struct(columns[0].alias("code"), columns[1].alias("message"))

    topic, size_bytes = F.col("new_topic"), F.col("size")
    limit = _of_topic(plan, plan.max_message_bytes, message.topic_max_bytes)
    found = F.when(F.col("defect").isNotNull(), error(DecodeError.code, F.col("defect")))
    if _has_direct(plan):
        found = found.when(F.col("no_topic"), error(DestinationFailure.code, _no_topic(topic)))
    found = found.when(F.col("key_error").isNotNull(), error(KeyFailure.code, F.col("key_error")))
    if any(route.has_own_converter for route in plan.routes):
        found = found.when(
            F.col("by_user.error_code").isNotNull(),
            error(F.col("by_user.error_code"), F.col("by_user.error_message")),
        )
    found = found.when(F.col("unconverted").isNotNull(), error(ConversionFailure.code, F.col("unconverted")))
    if _senders_choose(plan):
        count = _of_topic(plan, plan.partitions, message.topic_partitions)
        asked_for = F.col("new_partition")
        text = F.concat(topic, F.lit(" has no partition "), asked_for)
        found = found.when(~asked_for.between(0, count - 1), error(DestinationFailure.code, text))
    return found.when(size_bytes > limit, error(OversizeFailure.code, _oversize(size_bytes, topic, limit)))


def _of_topic(plan: RoutingPlan, facts: Mapping[str, int], found: Column) -> Column:
    """A fact about the topic that the row goes to; null where nothing is known.

    ``found`` is what the edge found of the topic of the message's address.
    """
    by_route = _listed(plan, lambda route: facts.get(route.topic)).cast("int")
    if not _has_direct(plan):
        return by_route
    if facts and plan.routes[-1].name == DIRECT:
        known = F.create_map(*[F.lit(each) for pair in facts.items() for each in pair])
        found = F.when(
            F.col("address_topic").isNull(), F.try_element_at(known, F.col("new_topic"))
        ).otherwise(found)
    return F.when(_is_direct(plan), found).otherwise(by_route)


def _is_direct(plan: RoutingPlan) -> Column:
    """Whether the row is on the direct route, which is the last one; null without a route."""
    return F.col("route") == len(plan.routes) - 1


def _no_topic(topic: Column) -> Column:
    return F.concat(F.lit("there is no topic "), topic)


def _checks(plan: RoutingPlan, message: MessageColumns) -> dict[str, Column]:
    """What there is to say about what is to be published."""
    routed = F.col("route").isNotNull()

    def key_error(key: tuple[str | None, str | None]) -> Column:
        name, pattern = key
        if name is None:
            return F.lit(None).cast("string")
        return routing.key_error(name, pattern, F.col("new_key"), message.types(name))

    def unconverted(form: tuple[str, NoBody]) -> Column:
        if ":" in form[0]:
            return F.lit(None).cast("string")
        return converters.convert(form[0], message, form[1]).error

    checks = {
        "key_error": _of_route(plan, lambda route: (route.key, route.key_pattern), key_error).cast("string"),
        "unconverted": _of_route(plan, lambda route: (route.convert, route.no_body), unconverted).cast(
            "string"
        ),
        "size": F.when(
            routed & ~_surely_fits(plan, message),
            routing.record_size(F.col("new_key"), F.col("new_value"), F.col("new_headers")),
        ),
    }
    if _senders_choose(plan):
        checks["new_partition"] = _of_route(plan, _partition_source, lambda source: source(message))
    if _has_direct(plan):
        checks["no_topic"] = _topic_missing(plan, message)
    return checks


def _surely_fits(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Whether the record fits whatever is in it, so that nobody has to measure; see `size.largest`."""
    bound = _listed(plan, lambda route: size.largest(plan, route)).cast("long")
    key_length = F.coalesce(F.octet_length("new_key"), F.lit(0))
    limit = _of_topic(plan, plan.max_message_bytes, message.topic_max_bytes)
    return F.coalesce(bound + key_length <= limit, F.lit(False))


def _partition_source(route: Route) -> Callable[[MessageColumns], Column]:
    """Where the partition of a route's records comes from."""
    if route.has_jms_headers:
        return _no_partition
    return _users_partition if route.has_own_converter else _asked_partition


def _no_partition(_: MessageColumns) -> Column:
    return F.lit(None).cast("int")


def _users_partition(_: MessageColumns) -> Column:
    return F.col("by_user.partition")


def _asked_partition(message: MessageColumns) -> Column:
    text = message.conversion(layout.PARTITION).cast("string")
    return F.when(text.rlike(rf"\A{layout.PARTITION_NUMBER}\z"), text.cast("int")).when(text.isNotNull(), -1)


def _topic_missing(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Whether the topic that the message names does not exist, as far as anybody has looked."""
    topic = F.col("new_topic")
    unknown = ~message.has_topic & ~_among(topic, plan.partitions)
    return _is_direct(plan) & (unknown | _among(topic, plan.missing_topics))


def _among(text: Column, texts: Collection[str]) -> Column:
    return text.isin(*texts) if texts else F.lit(False)


def _oversize(size_bytes: Column, topic: Column, limit: Column) -> Column:
    return F.concat(
        F.lit("the record has up to "), size_bytes, F.lit(" bytes, and "), topic, F.lit(" takes "), limit
    )


def _outcome(plan: RoutingPlan) -> Column:
    outcome_of = {
        OnError.STOP: Outcome.STOPPED,
        OnError.SKIP: Outcome.SKIPPED,
        OnError.DEAD_LETTER: Outcome.DEAD_LETTERED,
    }
    by_route = _listed(plan, lambda route: code(outcome_of[plan.policy(route)]))
    failed = F.coalesce(by_route, F.lit(code(outcome_of[plan.policy(None)])))
    return (
        F.when(F.col("error").isNotNull(), failed)
        .when(F.col("route").isNull(), F.coalesce("aside", F.lit(code(Outcome.UNMATCHED))))
        .otherwise(code(Outcome.PUBLISHED))
    )


def _dead_letter_headers(plan: RoutingPlan, message: MessageColumns) -> Column:
    """All that the record had, and what went wrong."""
    route_name = F.coalesce(_listed(plan, lambda route: route.name), F.lit(""))
    report = kafka_headers(
        {
            layout.ERROR_CODE: F.col("error.code"),
            layout.ERROR_MESSAGE: F.col("error.message"),
            layout.ERROR_ROUTE: route_name,
        }
    )
    kept = F.coalesce(F.col("headers"), no_headers())
    return F.when(
        F.col("outcome") == code(Outcome.DEAD_LETTERED), F.concat(kept, _marks(plan, message), report)
    )


def _oversize_dead_letters(plan: RoutingPlan) -> dict[str, Column]:
    """A dead letter that its topic does not take stops the bridge: there is no other place to keep it."""
    topic = plan.dead_letter_topic or ""
    limit = F.lit(plan.max_message_bytes[topic])
    size_bytes = routing.record_size(F.col("key"), F.col("value"), F.col("dead_letter_headers"))
    oversize = (F.col("outcome") == code(Outcome.DEAD_LETTERED)) & (size_bytes > limit)
    error = F.struct(
        F.lit(OversizeFailure.code).alias("code"), _oversize(size_bytes, F.lit(topic), limit).alias("message")
    )
    return {
        "outcome": F.when(oversize, code(Outcome.STOPPED)).otherwise(F.col("outcome")),
        "error": F.when(oversize, error).otherwise(F.col("error")),
    }


def _stop(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Fails the query, with all that the operator needs to know."""
    report = F.struct(
        F.col("error.code").alias("code"),
        F.col("error.message").alias("message"),
        _listed(plan, lambda route: route.name).alias("route"),
        message.stable_id.alias("position"),
    )
    return F.raise_error(F.concat(F.lit(STOP_MARK), F.to_json(report))).cast("string")


def _for_outcome(*, published: Column, dead_lettered: Column, stopped: Column | None = None) -> Column:
    chosen = F.when(F.col("outcome") == code(Outcome.PUBLISHED), published).when(
        F.col("outcome") == code(Outcome.DEAD_LETTERED), dead_lettered
    )
    return chosen if stopped is None else chosen.when(F.col("outcome") == code(Outcome.STOPPED), stopped)
