"""The router: from journal records to the records that are published, as one native Spark plan.

In: rows of Spark's Kafka source. Out: rows for its Kafka sink, ``topic, key, value, headers``. On the way
every row gets a route, a key, a converted value and an outcome, and ``observe`` counts the outcomes.
There is no Python per record, no UDF and no ``foreachBatch``, so that the plan can run in real-time mode.

`isthmus.routing.decide` says the same in plain Python, one record at a time: read that for the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isthmus.converters import columns as converters
from isthmus.errors import ConversionFailure, DecodeError, KeyFailure, OversizeFailure
from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns, kafka_headers, no_headers
from isthmus.message import NON_PERSISTENT
from isthmus.pipeline import measures
from isthmus.routing import columns as routing
from isthmus.routing.counts import FAILURES
from isthmus.routing.plan import Outcome, RoutingPlan
from isthmus.routing.route import OnError, Route

STOP_MARK = "isthmus-stop:"
"""What begins the message of the error that policy ``stop`` raises; JSON follows."""

T = TypeVar("T", bound=Hashable)


def route(rows: DataFrame, plan: RoutingPlan) -> DataFrame:
    """The records to publish for rows of Spark's Kafka source. A soft failure under ``stop`` is an error."""
    message = MessageColumns(plan.journal_topic, other_topics=bool(plan.source_topics))
    return _publish(decide(rows, plan, message), plan, message)


def decide(rows: DataFrame, plan: RoutingPlan, message: MessageColumns) -> DataFrame:
    """The rows that are messages, each with its outcome and with what would be published."""
    decided = (
        message.read(rows, {"latency_ms": measures.latency_ms()})
        .withColumn("defect", message.defect)
        .where(F.col("defect").isNotNull() | (message.op == layout.Op.ADD.value))
        .withColumn("aside", _aside(plan, message))
        .withColumn("route", _first_match(plan, message))
        .withColumns(_conversion(plan, message))
        .withColumns(_checks(plan, message))
        .withColumn("error", _error(plan, message))
        .withColumn("outcome", _outcome(plan))
        .withColumn("dead_letter_headers", _dead_letter_headers(plan, message))
    )
    if plan.dead_letter_topic in plan.max_message_bytes:
        decided = decided.withColumns(_oversize_dead_letters(plan))
    return decided


def _publish(decided: DataFrame, plan: RoutingPlan, message: MessageColumns) -> DataFrame:
    """The records for Spark's Kafka sink; every outcome is counted on the way."""
    to_publish = decided.select(
        "outcome",
        F.when(F.col("outcome") == Outcome.PUBLISHED.value, F.col("route")).alias("success_route"),
        F.when(F.col("outcome").isin([each.value for each in FAILURES]), F.col("route")).alias(
            "failure_route"
        ),
        "latency_ms",
        _for_outcome(
            published=_listed(plan, lambda route: route.topic),
            dead_lettered=F.lit(plan.dead_letter_topic),
            stopped=_stop(plan, message),
        ).alias("topic"),
        _for_outcome(published=F.col("new_key"), dead_lettered=F.col("key")).alias("key"),
        _for_outcome(published=F.col("new_value"), dead_lettered=F.col("value")).alias("value"),
        _for_outcome(published=F.col("new_headers"), dead_lettered=F.col("dead_letter_headers")).alias(
            "headers"
        ),
    )
    counted = to_publish.observe(measures.NAME, *measures.aggregates(len(plan.routes)))
    return counted.where(F.col("topic").isNotNull()).select("topic", "key", "value", "headers")


def _aside(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Why a message is left aside before any route is tried; null when it is not."""
    aside = F.when(F.col("defect").isNotNull(), None).when(
        message.published_by(plan.bridge_id), Outcome.LOOPED.value
    )
    if not plan.propagate_non_durable:
        aside = aside.when(message.header("DeliveryMode") == NON_PERSISTENT, Outcome.NON_DURABLE.value)
    return aside


def _first_match(plan: RoutingPlan, message: MessageColumns) -> Column:
    """The place in the plan of the first route that takes the message; null when none does."""
    found = F.when(F.col("defect").isNotNull() | F.col("aside").isNotNull(), F.lit(None).cast("int"))
    for place, route in enumerate(plan.routes):
        found = found.when(routing.matches(route.predicate, message.address, message.header), F.lit(place))
    return found


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
    return F.get(F.array(*[F.lit(value(route)) for route in plan.routes]), F.col("route"))


def _conversion(plan: RoutingPlan, message: MessageColumns) -> dict[str, Column]:
    """What is to be published for a row with a route."""
    routed = F.col("route").isNotNull()

    def key(name: str | None) -> Column:
        return F.col("key") if name is None else message.header_bytes(name)

    return {
        "new_key": _of_route(plan, lambda route: route.key, key).cast("binary"),
        "new_value": F.when(routed, converters.jms(message).value),
        "new_headers": F.when(routed, F.concat(message.own_headers, _marks(plan, message))),
    }


def _marks(plan: RoutingPlan, message: MessageColumns) -> Column:
    """What tells of every record where it came from."""
    return kafka_headers({layout.ORIGIN: F.lit(plan.bridge_id), layout.STABLE_ID: message.stable_id})


def _error(plan: RoutingPlan, message: MessageColumns) -> Column:
    """Code and message of the soft failure; null when there is none."""

    def error(code: str, text: Column) -> Column:
        return F.struct(F.lit(code).alias("code"), text.alias("message"))

    limit = _listed(plan, lambda route: plan.max_message_bytes.get(route.topic)).cast("int")
    topic = _listed(plan, lambda route: route.topic)
    size = F.col("size")
    return (
        F.when(F.col("defect").isNotNull(), error(DecodeError.code, F.col("defect")))
        .when(F.col("key_error").isNotNull(), error(KeyFailure.code, F.col("key_error")))
        .when(F.col("unconverted"), error(ConversionFailure.code, converters.jms(message).error_message))
        .when(size > limit, error(OversizeFailure.code, _oversize(size, topic, limit)))
    )


def _checks(plan: RoutingPlan, message: MessageColumns) -> dict[str, Column]:
    """What there is to say about what is to be published."""
    routed = F.col("route").isNotNull()

    def key_error(name: str | None) -> Column:
        value = F.col("new_key")
        if name is None:
            return F.lit(None).cast("string")
        return (
            F.when(value.isNull(), f"no header {name}")
            .when(
                routing.is_opaque(name, value, message.types), f"header {name} is neither text nor a number"
            )
            .when(F.octet_length(value) == 0, f"header {name} is empty")
        )

    return {
        "key_error": _of_route(plan, lambda route: route.key, key_error).cast("string"),
        "unconverted": routed & converters.jms(message).error_code.isNotNull(),
        "size": F.when(
            routed, routing.record_size(F.col("new_key"), F.col("new_value"), F.col("new_headers"))
        ),
    }


def _oversize(size: Column, topic: Column, limit: Column) -> Column:
    return F.concat(
        F.lit("the record has up to "), size, F.lit(" bytes, and "), topic, F.lit(" takes "), limit
    )


def _outcome(plan: RoutingPlan) -> Column:
    outcome_of = {
        OnError.STOP: Outcome.STOPPED,
        OnError.SKIP: Outcome.SKIPPED,
        OnError.DEAD_LETTER: Outcome.DEAD_LETTERED,
    }
    by_route = _listed(plan, lambda route: outcome_of[plan.policy(route)].value)
    failed = F.coalesce(by_route, F.lit(outcome_of[plan.policy(None)].value))
    return (
        F.when(F.col("error").isNotNull(), failed)
        .when(F.col("aside").isNotNull(), F.col("aside"))
        .when(F.col("route").isNull(), Outcome.UNMATCHED.value)
        .otherwise(Outcome.PUBLISHED.value)
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
        F.col("outcome") == Outcome.DEAD_LETTERED.value, F.concat(kept, _marks(plan, message), report)
    )


def _oversize_dead_letters(plan: RoutingPlan) -> dict[str, Column]:
    """A dead letter that its topic does not take stops the bridge: there is no other place to keep it."""
    topic = plan.dead_letter_topic or ""
    limit = F.lit(plan.max_message_bytes[topic])
    size = routing.record_size(F.col("key"), F.col("value"), F.col("dead_letter_headers"))
    oversize = (F.col("outcome") == Outcome.DEAD_LETTERED.value) & (size > limit)
    error = F.struct(
        F.lit(OversizeFailure.code).alias("code"), _oversize(size, F.lit(topic), limit).alias("message")
    )
    return {
        "outcome": F.when(oversize, Outcome.STOPPED.value).otherwise(F.col("outcome")),
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
    chosen = F.when(F.col("outcome") == Outcome.PUBLISHED.value, published).when(
        F.col("outcome") == Outcome.DEAD_LETTERED.value, dead_lettered
    )
    return chosen if stopped is None else chosen.when(F.col("outcome") == Outcome.STOPPED.value, stopped)
