"""SIGINT and SIGTERM end a bridge wherever it is in its start, and leave nothing behind."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import QUICKSTART, Running
from tests.support.polling import PATIENCE_S, eventually
from tests.support.processes import children_of, is_running, owner

ANY_PORT = {"ISTHMUS_AMQP_PORT": "0"}


def _descendants(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *_descendants(child))]


def _kafka_starts(bridge: Running) -> bool:
    return bool(children_of(bridge.process.pid))


def _spark_starts(bridge: Running) -> bool:
    return bridge.jvm() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("far_enough", [_kafka_starts, _spark_starts])
def test_a_signal_during_the_start_ends_it_in_good_order(
    far_enough: Callable[[Running], bool], number: signal.Signals, tmp_path: Path
) -> None:
    with Running(tmp_path, QUICKSTART, environ=ANY_PORT) as bridge:
        eventually(lambda: far_enough(bridge), what=bridge.printed)
        started = _descendants(bridge.process.pid)
        bridge.process.send_signal(number)
        assert bridge.process.wait(PATIENCE_S) == 0, bridge.printed()
        assert "Traceback" not in bridge.printed()
        assert bridge.printed().endswith("stopping\nstopped\n")
        assert "ready:" not in bridge.printed()
        eventually(lambda: not any(map(is_running, started)), what=lambda: str(started))


def test_a_second_signal_ends_a_bridge_with_all_that_it_started(tmp_path: Path) -> None:
    with Running(tmp_path, QUICKSTART, environ=ANY_PORT) as bridge:
        eventually(lambda: _spark_starts(bridge), what=bridge.printed)
        started = _descendants(bridge.process.pid)
        bridge.process.send_signal(signal.SIGINT)
        eventually(lambda: "stopping" in bridge.printed(), what=bridge.printed)
        bridge.process.send_signal(signal.SIGINT)
        bridge.process.wait(PATIENCE_S)  # with any code: it may have been done with stopping by then
        assert "Traceback" not in bridge.printed()
        eventually(lambda: not any(map(is_running, started)), what=lambda: str(started))


STUCK = """
import threading
from isthmus.cli.stopping import Stop

stop = Stop()
stop.take_signals()
try:
    print("starting", flush=True)
    threading.Event().wait()
except KeyboardInterrupt:
    stop.stopping()
    print("stopping", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_that_takes_for_ever_is_ended_by_a_second_signal(number: signal.Signals) -> None:
    with owner(STUCK) as (process, said):
        assert said == "starting"
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
