"""``isthmus dead-letter list``, ``show``, ``replay`` and ``drop``: what could not be routed or delivered."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.bridge import ConfigFile, connect, position_of, read_settings
from isthmus.cli.lazy import group
from isthmus.cli.show import as_json, print_record, printable
from isthmus.config import Settings
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    from isthmus.journal.dead_letter import DeadLetter
    from isthmus.journal.replay import Notes, Replayer
    from isthmus.journal.replay_plan import State, Step
    from isthmus.kafka.options import Kafka

MAX_REPLAYS = 3
"""How often a message is replayed before it is quarantined, unless the command says otherwise."""

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

dead_letters = group(
    "dead-letter",
    "See what could not be routed or delivered, replay it once the cause is mended, or drop it.",
    no_args_is_help=True,
)

Since = Annotated[
    str | None,
    typer.Option("--since", help="Only younger ones: `2h`, `3d`, or 2026-11-17T20:00 (UTC)."),
]
Until = Annotated[str | None, typer.Option("--until", help="Only older ones, likewise.")]
OfRoute = Annotated[
    list[str] | None, typer.Option("--route", "-r", help="Only those that failed on this route. Repeatable.")
]
OfCode = Annotated[
    list[str] | None,
    typer.Option("--code", "-c", help="Only those with this code, e.g. `key`. Repeatable."),
]
At = Annotated[
    list[str] | None,
    typer.Option("--position", "-P", help="Only this one: `partition:offset`. Repeatable."),
]
Quarantined = Annotated[
    bool, typer.Option("--quarantine", help="Of those that failed too often, in their own topic.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which dead letters are meant."""

    since_ms: int | None
    until_ms: int | None
    routes: list[str] | None
    codes: list[str] | None
    positions: set[str] | None

    def takes(self, dead: DeadLetter) -> bool:
        return (
            (self.since_ms is None or dead.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or dead.timestamp_ms < self.until_ms)
            and (self.routes is None or dead.route in self.routes)
            and (self.codes is None or dead.code in self.codes)
            and (self.positions is None or dead.position in self.positions)
        )


@dataclass(frozen=True, slots=True)
class _Selection:
    """The dead letters that a command is about."""

    settings: Settings
    kafka: Kafka
    topic: str
    filter: _Filter

    @classmethod
    def of(
        cls,
        file: Any,
        since: str | None,
        until: str | None,
        route: list[str] | None,
        code: list[str] | None,
        position: list[str] | None,
        *,
        quarantine: bool,
    ) -> _Selection:
        from isthmus.journal.layout import stable_id
        from isthmus.journal.replay import dead_letter_topic

        settings = read_settings(file)
        topic = dead_letter_topic(settings, quarantine=quarantine)
        positions = {stable_id(*position_of(each, topic)) for each in position or ()} or None
        chosen = _Filter(_time_ms(since), _time_ms(until), route or None, code or None, positions)
        return cls(settings, connect(settings), topic, chosen)

    def read(self) -> Iterator[DeadLetter]:
        from isthmus.journal.replay import read_dead_letters

        return filter(self.filter.takes, read_dead_letters(self.kafka, self.topic))

    def notes(self) -> Notes:
        from isthmus.journal.replay import read_notes

        return read_notes(self.kafka, self.settings)


@dead_letters.command("list")
def list_(
    file: ConfigFile = None,
    since: Since = None,
    until: Until = None,
    route: OfRoute = None,
    code: OfCode = None,
    quarantine: Quarantined = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were replayed, dropped or quarantined.")
    ] = False,
    json: Json = False,
) -> None:
    """List the dead letters that nothing was done about yet: position, time, route, code, address, reason.

    For example `isthmus dead-letter list bridge.properties --since 1h --code key`.
    """
    selection = _Selection.of(file, since, until, route, code, None, quarantine=quarantine)
    notes, console = selection.notes(), Console(highlight=False, soft_wrap=True, markup=False)
    shown = hidden = 0
    for dead in selection.read():
        state = notes.state(dead)
        if state is not None and not everything:
            hidden += 1
            continue
        shown += 1
        if json:
            typer.echo(as_json(**_about(dead), state=state))
        else:
            console.print(_line(dead, state))
    if not json:
        more = f"; {hidden} more were replayed, dropped or quarantined (--all)" if hidden else ""
        console.print(f"{shown} dead letter{'s' * (shown != 1)} in {selection.topic}{more}")


@dead_letters.command()
def show(
    file: ConfigFile = None,
    position: At = None,
    quarantine: Quarantined = False,
    json: Json = False,
) -> None:
    """Show dead letters in full: what went wrong, what was tried before, headers and body.

    For example `isthmus dead-letter show bridge.properties --position 0:17`.
    """
    from isthmus.journal.dead_letter import history_of

    if not position:
        raise typer.BadParameter(
            "which one? isthmus dead-letter list prints positions", param_hint="--position"
        )
    selection = _Selection.of(file, None, None, None, None, position, quarantine=quarantine)
    notes, console = selection.notes(), Console(highlight=False, soft_wrap=True, markup=False)
    missing = set(selection.filter.positions or ())
    for dead in selection.read():
        missing.discard(dead.position)
        state, past = notes.state(dead), history_of(dead.original)
        original = dead.original
        if json:
            typer.echo(as_json(**_about(dead), state=state, history=past, **original._asdict()))
            continue
        console.print(_line(dead, state))
        for each in past:
            console.print(Text.assemble(("  before: ", "dim"), printable(each)))
        entry = dead.entry
        body = original.value if entry is None else entry.message.body.slice(original.value)
        print_record(console, (), original, body)
    if missing:
        raise ConfigError(f"there is no dead letter at {', '.join(sorted(missing))}")


@dead_letters.command()
def replay(
    file: ConfigFile = None,
    since: Since = None,
    until: Until = None,
    route: OfRoute = None,
    code: OfCode = None,
    position: At = None,
    quarantine: Quarantined = False,
    max_replays: Annotated[
        int,
        typer.Option(
            "--max-replays", min=1, help="What was replayed so often before goes to the quarantine."
        ),
    ] = MAX_REPLAYS,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10_000, help="How many a transaction has.")
    ] = 200,
    dry_run: DryRun = False,
) -> None:
    """Send dead letters through the journal again, each once, however often this is run or killed.

    A bridge that runs routes them by its routes of now. Those that fail again are new dead letters, which
    carry how often and why; after `--max-replays` they go to `<dead-letter topic>.quarantine`.
    What would be lost or stop the bridge is left, and said.

    For example `isthmus dead-letter replay bridge.properties --route eu --code key --dry-run`.
    """
    from isthmus.journal.replay import Replayer
    from isthmus.journal.replay_order import in_order
    from isthmus.journal.replay_plan import Planner, State

    selection = _Selection.of(file, since, until, route, code, position, quarantine=quarantine)
    planner = Planner(selection.settings, selection.kafka, limit=None if quarantine else max_replays)
    console = Console(highlight=False, soft_wrap=True, markup=False)

    def steps(notes: Notes) -> Iterator[Step]:
        waiting = (dead for dead in selection.read() if notes.state(dead) is None)
        for dead in in_order(selection.kafka, selection.topic, waiting):
            step = planner.step(dead, time.time_ns() // 1_000_000)
            if dry_run or step.state is not State.REPLAYED:
                console.print(f"{dead.position}  {step.state}: {printable(step.reason)}")
            yield step

    if dry_run:
        counts = dict.fromkeys(State, 0)
        for step in steps(selection.notes()):
            counts[step.state] += 1
    else:
        replayer = Replayer(
            selection.settings, selection.kafka, largest_record=planner.largest_record, batch=batch
        )
        counts = _written(replayer, steps(replayer.notes))
    would = "would be " if dry_run else ""
    ends = (State.REPLAYED, State.QUARANTINED, State.LEFT)
    console.print(", ".join(f"{counts[each]} {would}{each}" for each in ends))


@dead_letters.command()
def drop(
    file: ConfigFile = None,
    since: Since = None,
    until: Until = None,
    route: OfRoute = None,
    code: OfCode = None,
    position: At = None,
    quarantine: Quarantined = False,
    everything: Annotated[bool, typer.Option("--all", help="All of them, without any other choice.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Drop dead letters: they are not listed any more, and never replayed. Their topic keeps them.

    For example `isthmus dead-letter drop bridge.properties --until 7d --code malformed`.
    """
    from isthmus.journal.replay import Replayer
    from isthmus.journal.replay_plan import State, Step

    if not (since or until or route or code or position or everything):
        raise typer.BadParameter("which ones? --since, --until, --route, --code, --position, or --all")
    selection = _Selection.of(file, since, until, route, code, position, quarantine=quarantine)

    def steps(notes: Notes) -> Iterator[Step]:
        return (Step(dead, State.DROPPED) for dead in selection.read() if notes.state(dead) is None)

    if dry_run:
        count = sum(1 for _ in steps(selection.notes()))
    else:
        replayer = Replayer(selection.settings, selection.kafka)
        count = _written(replayer, steps(replayer.notes))[State.DROPPED]
    Console(highlight=False).print(f"{count} {'would be ' if dry_run else ''}dropped")


def _written(replayer: Replayer, steps: Iterator[Step]) -> dict[State, int]:
    """Write the steps, and tell on standard error how far it is."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with console.status("reading the dead letters") as status:

        def tell(counts: Mapping[State, int]) -> None:
            status.update(", ".join(f"{count} {state}" for state, count in counts.items() if count))

        return replayer.write(steps, tell)


def _about(dead: DeadLetter) -> dict[str, Any]:
    return {
        "position": dead.position,
        "timestamp_ms": dead.timestamp_ms,
        "route": dead.route or None,
        "code": dead.code,
        "reason": dead.reason,
        "address": dead.address,
        "id": dead.id,
        "replays": dead.replays,
    }


def _line(dead: DeadLetter, state: str | None) -> Text:
    at = datetime.fromtimestamp(dead.timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    replays = f"  replays {dead.replays}" if dead.replays else ""
    return Text.assemble(
        (f"{dead.partition}:{dead.offset}", "bold green"),
        f"  {at}  {printable(dead.route) or '-'}  ",
        (printable(dead.code), "bold"),
        f"  {printable(dead.address or '-')}  {printable(dead.reason)}{replays}",
        (f"  ({state})" if state else "", "dim"),
    )


def _time_ms(text: str | None) -> int | None:
    """A time, or how long ago it was."""
    if text is None:
        return None
    if ago := re.fullmatch(r"([0-9]{1,6})([smhd])", text):
        return time.time_ns() // 1_000_000 - int(ago[1]) * _UNITS_S[ago[2]] * 1000
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a time such as 2026-11-17T20:00 nor 2h") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
