"""Dead letters for the page: by what went wrong, one in full, and what is done about them.

The same as ``isthmus dead-letter`` does, by the same code: see `isthmus.journal.replay`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from isthmus.config.model.settings import Settings
from isthmus.errors import ConfigError
from isthmus.events.monitor import DeadLettersMoved
from isthmus.journal.dead_letter import DeadLetter, history_of
from isthmus.journal.replay import Notes, Replayer, dead_letter_of, dead_letter_topic, read_notes
from isthmus.journal.replay_order import in_order
from isthmus.journal.replay_plan import Planner, State, Step
from isthmus.kafka.blocking import read_last, read_one
from isthmus.kafka.options import Kafka
from isthmus.monitor.explaining import place_of
from isthmus.monitor.messages import shown_record

LOOKED_AT: Final = 10_000
"""Of each partition, so many dead letters are looked at; the command line has no such bound."""
GROUPS_SHOWN: Final = 200
LISTED: Final = 20
"""Of each group."""
MAX_REPLAYS: Final = 3

Shown = dict[str, Any]


class Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters an action is about: those of a group that are as old as what was shown, or one."""

    route: str | None = None
    code: str | None = None
    reason: str | None = None
    position: str | None = None
    until_ms: int
    dry_run: bool = True

    def takes(self, dead: DeadLetter) -> bool:
        """Whether it is one of them."""
        if self.position is not None:
            return dead.position == self.position
        return (dead.route, dead.code, dead.reason) == (self.route, self.code, self.reason) and (
            dead.timestamp_ms <= self.until_ms
        )


def overview(settings: Settings, kafka: Kafka) -> Shown:
    """Those that nothing was done about yet, by route, code and reason: counts, and the youngest of each."""
    topic, notes = dead_letter_topic(settings), read_notes(kafka, settings)
    groups: dict[tuple[str, str, str], Shown] = {}
    done, youngest_ms = 0, 0
    for dead in _last(kafka, topic):
        youngest_ms = max(youngest_ms, dead.timestamp_ms)
        if notes.state(dead) is not None:
            done += 1
            continue
        empty = {"route": dead.route, "code": dead.code, "reason": dead.reason, "count": 0, "letters": []}
        group = groups.setdefault((dead.route, dead.code, dead.reason), empty)
        group["count"] += 1
        group["letters"] = [*group["letters"], _about(dead)][-LISTED:]
    found = sorted(groups.values(), key=lambda each: -each["count"])
    return {
        "topic": topic,
        "groups": [{**each, "letters": each["letters"][::-1]} for each in found[:GROUPS_SHOWN]],
        "total": sum(each["count"] for each in found),
        "done": done,
        "until_ms": youngest_ms,
        "looked_at": LOOKED_AT,
    }


def one(settings: Settings, kafka: Kafka, position: str) -> Shown:
    """A dead letter in full. Raises `ConfigError` if there is none."""
    topic, partition, offset = place_of(position)
    found = read_one(kafka, topic, partition, offset) if topic == dead_letter_topic(settings) else None
    dead = None if found is None else dead_letter_of(found)
    if dead is None:
        raise ConfigError(f"there is no dead letter at {position}")
    original, entry = dead.original, dead.entry
    body = original.value if entry is None else entry.message.body.slice(original.value)
    return {
        **_about(dead),
        "route": dead.route,
        "code": dead.code,
        "reason": dead.reason,
        "id": dead.id,
        "destination": dead.destination,
        "history": history_of(original),
        **shown_record(original, body, bodies=settings.monitor.show_bodies),
    }


def replay(settings: Settings, kafka: Kafka, chosen: Chosen) -> Shown:
    """Send the chosen ones through the journal again, each once; or say what that would do."""
    planner = Planner(settings, kafka, limit=MAX_REPLAYS)

    def steps(notes: Notes) -> Iterator[Step]:
        waiting = _chosen(settings, kafka, chosen, notes)
        for dead in in_order(kafka, dead_letter_topic(settings), waiting):
            yield planner.step(dead, time.time_ns() // 1_000_000)

    return _done(settings, kafka, chosen, steps, largest_record=planner.largest_record)


def drop(settings: Settings, kafka: Kafka, chosen: Chosen) -> Shown:
    """Have the chosen ones listed no more; or say how many those are."""

    def steps(notes: Notes) -> Iterator[Step]:
        return (Step(dead, State.DROPPED) for dead in _chosen(settings, kafka, chosen, notes))

    return _done(settings, kafka, chosen, steps)


def _done(
    settings: Settings,
    kafka: Kafka,
    chosen: Chosen,
    steps: Callable[[Notes], Iterator[Step]],
    *,
    largest_record: int | None = None,
) -> Shown:
    reasons: Counter[tuple[State, str]] = Counter()

    def told(steps: Iterator[Step]) -> Iterator[Step]:
        for step in steps:
            if step.reason:
                reasons[step.state, step.reason] += 1
            yield step

    if chosen.dry_run:
        counts = dict.fromkeys(State, 0)
        for step in told(steps(read_notes(kafka, settings))):
            counts[step.state] += 1
    else:
        replayer = Replayer(settings, kafka, largest_record=largest_record)
        counts = replayer.write(told(steps(replayer.notes)), lambda _: None)
        said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        DeadLettersMoved(said or "none").emit()
    told_of = [
        {"state": state, "reason": reason, "count": n} for (state, reason), n in reasons.most_common(LISTED)
    ]
    return {"counts": counts, "reasons": told_of, "dry_run": chosen.dry_run}


def _chosen(settings: Settings, kafka: Kafka, chosen: Chosen, notes: Notes) -> Iterator[DeadLetter]:
    for dead in _last(kafka, dead_letter_topic(settings)):
        if chosen.takes(dead) and notes.state(dead) is None:
            yield dead


def _last(kafka: Kafka, topic: str) -> Iterator[DeadLetter]:
    for message in read_last(kafka, topic, LOOKED_AT):
        dead = dead_letter_of(message)
        if dead is not None:
            yield dead


def _about(dead: DeadLetter) -> Shown:
    return {
        "position": dead.position,
        "time_ms": dead.timestamp_ms,
        "address": dead.address,
        "replays": dead.replays,
    }
