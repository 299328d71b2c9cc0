"""Why a query ended, in the operator's words.

In: the exception of a Spark query, pages long. Out: a `HardFailure` that says what happened and what to do.
"""

from __future__ import annotations

import json
import re

from isthmus.config.model.settings import Settings
from isthmus.errors import HardFailure, Outage
from isthmus.kafka.blocking import describe
from isthmus.kafka.options import Kafka
from isthmus.pipeline.cluster import JOBS_ENDED, SECOND_ATTEMPT
from isthmus.pipeline.prepare import check_topics
from isthmus.pipeline.router import STOP_MARK

_DATA_LOSS = re.compile(
    r"data (?:may have been|was|has been) lost|KAFKA_DATA_LOSS|OffsetOutOfRange", re.IGNORECASE
)
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)


_PASSING = re.compile(
    # As Kafka's client in Java says it, and as the one in Python does.
    r"kafka\.common\.errors\.(?:Timeout|Network|Disconnect|BrokerNotAvailable|CoordinatorNotAvailable"
    r"|CoordinatorLoadInProgress|LeaderNotAvailable|NotCoordinator|NotEnoughReplicas|NotEnoughReplicasAfterAppend"
    r"|NotLeaderOrFollower|ReplicaNotAvailable)Exception"
    r"|KafkaError\{code=(?:_TIMED_OUT|_TRANSPORT|_ALL_BROKERS_DOWN|_MSG_TIMED_OUT|REQUEST_TIMED_OUT"
    r"|COORDINATOR_NOT_AVAILABLE|NOT_COORDINATOR|NOT_ENOUGH_REPLICAS|LEADER_NOT_AVAILABLE),"
    # A process of the ledger's was killed, or the machine is too busy to start one.
    r"|Python worker (?:failed to connect back|exited unexpectedly)"
    # An executor of a cluster was lost, with its machine or without.
    rf"|ExecutorLostFailure|{SECOND_ATTEMPT}|{JOBS_ENDED}"
)
"""What ends by itself: a broker that is unavailable or moves, a process that is replaced."""


def may_pass(error: str) -> bool:
    """Whether a query that ended with this exception is worth starting again."""
    return _PASSING.search(error) is not None


def explain(query: str, error: str, settings: Settings, kafka: Kafka, log: str) -> HardFailure:
    """What the text of a query's exception means: an `Outage` if it may pass. ``log`` has the rest of it."""
    if (report := _report(error)) is not None:
        return _stopped(report, settings)
    if _DATA_LOSS.search(error):
        return HardFailure(
            f"records were deleted from the journal or a source topic before the {query} read them",
            remedy="raise retention.ms of the topic; to go on without them, move the checkpoint in "
            f"{settings.state_dir} away, which reads all that is left from the beginning",
        )
    try:
        check_topics(settings, describe(kafka, _topics(settings)))
    except HardFailure as failure:
        return failure
    causes = _CAUSE.findall(error)
    kind, message = causes[-1] if causes else ("", "".join(error.strip().splitlines()[:1]))
    said = ": ".join(part for part in (kind.rpartition(".")[2], message.strip()) if part)
    if JOBS_ENDED in error:
        said = "an executor of the cluster was lost"
    kind_of_failure = Outage if may_pass(error) else HardFailure
    return kind_of_failure(
        f"the {query} stopped: {said or 'Spark does not say why'}",
        remedy=f"see {log}; the {query} goes on from its checkpoint when it is started again",
    )


def _report(error: str) -> dict[str, str] | None:
    """What the plan reported; None if the error is another one, or the report was cut off."""
    _, mark, rest = error.partition(STOP_MARK)
    try:
        report = json.JSONDecoder().raw_decode(rest)[0] if mark else None
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _stopped(report: dict[str, str], settings: Settings) -> HardFailure:
    route, position = report.get("route"), report["position"]
    by = f" by route {route}" if route else ""
    if report["code"] == "oversize" and settings.routing.dead_letter_topic in report["message"].split():
        remedy = f"raise max.message.bytes of {settings.routing.dead_letter_topic}: a dead letter must fit"
    else:
        key = f"routes.{route}.on-error" if route else "routing.on-error"
        remedy = f"set {key} to skip or dead-letter to go on past such messages, or mend the route"
    return HardFailure(
        f"the message at {position} cannot be routed{by}: {report['message']} ({report['code']})",
        remedy=remedy,
    )


def _topics(settings: Settings) -> set[str]:
    topics = {route.topic for route in (*settings.routes, *settings.temporary_routes)} | {
        *settings.routing.source_topics,
        settings.journal.topic,
    }
    return topics | ({settings.routing.dead_letter_topic} if settings.routing.dead_letter_topic else set())
