"""A query that is looked after: what passes is waited for, what does not is raised."""

from __future__ import annotations

import pytest

from isthmus.errors import HardFailure, Outage
from isthmus.pipeline.supervised import LONGEST_PAUSE_S, STEADY_S, Supervised

AWAY = Outage("Kafka does not answer", remedy="start it")
BROKEN = HardFailure("a defect", remedy="mend it")


class Query:
    """Stands for Spark's: runs until `end`."""

    def __init__(self) -> None:
        self.isActive = True

        self.error: str | None = "what Spark says"

    def end(self) -> None:
        self.isActive = False

    def exception(self) -> str | None:
        return self.error

    def stop(self) -> None:
        self.end()


class Scene:
    """A supervised query, its starts and its clock."""

    def __init__(self, *meanings: HardFailure | None) -> None:
        self.now = 1000.0
        self.meanings = list(meanings)
        self.starts: list[Query | Outage] = []
        self.refusals: list[Outage] = []
        self.restarts: list[str] = []
        self.supervised = Supervised(
            "router",
            self._start,  # type: ignore[arg-type]
            self._explain,  # type: ignore[arg-type]
            on_restart=self.restarts.append,
            clock=lambda: self.now,
        )
        self.supervised.start()

    def _start(self) -> Query:
        if self.refusals:
            self.starts.append(self.refusals.pop(0))
            raise AWAY
        query = Query()
        self.starts.append(query)
        return query

    def _explain(self, error: str) -> HardFailure | None:
        assert error == "what Spark says"
        return self.meanings.pop(0)

    def fail(self, error: str | None = "what Spark says") -> None:
        query = self.starts[-1]
        assert isinstance(query, Query)
        query.error = error
        query.end()
        self.supervised.poll()

    def pause(self) -> float:
        """How long it is until the next start."""
        before, began = len(self.starts), self.now
        while len(self.starts) == before:
            self.now += 0.5
            self.supervised.poll()
            assert self.now < began + 1000
        return self.now - began


def test_what_may_pass_starts_the_query_again_after_a_pause() -> None:
    scene = Scene(AWAY)
    scene.fail()
    assert len(scene.starts) == 1
    assert "Kafka does not answer" in str(scene.supervised.problem)
    assert scene.pause() == 1
    assert scene.supervised.problem is None


def test_what_cannot_pass_is_raised() -> None:
    scene = Scene(BROKEN)
    with pytest.raises(HardFailure, match="a defect"):
        scene.fail()


def test_a_question_that_was_answered_starts_the_query_again_at_once() -> None:
    scene = Scene(None)
    scene.fail()
    assert len(scene.starts) == 2
    assert scene.supervised.problem is None


def test_a_query_that_is_done_is_followed_by_the_next_start_at_once() -> None:
    scene = Scene()
    scene.fail(error=None)
    assert len(scene.starts) == 2
    assert scene.supervised.problem is None


def test_a_start_at_once_that_must_wait_is_tried_again() -> None:
    scene = Scene()
    scene.refusals = [AWAY]
    scene.fail(error=None)
    assert "Kafka does not answer" in str(scene.supervised.problem)
    assert scene.pause() == 1
    assert scene.supervised.problem is None


def test_the_pauses_grow_up_to_a_bound() -> None:
    scene = Scene(AWAY)
    scene.refusals = [AWAY] * 8
    scene.fail()
    assert [scene.pause() for _ in range(9)] == [1, 2, 4, 8, 16, 32, *[LONGEST_PAUSE_S] * 3]


def test_a_query_that_keeps_failing_soon_waits_longer_each_time() -> None:
    scene = Scene(AWAY, AWAY)
    scene.fail()
    scene.pause()
    scene.fail()
    assert scene.pause() == 2


def test_after_a_steady_time_the_next_failure_is_the_first_one() -> None:
    scene = Scene(AWAY, AWAY)
    scene.fail()
    scene.pause()
    scene.now += STEADY_S
    scene.fail()
    assert scene.pause() == 1


def test_a_query_that_was_stopped_is_not_started_again() -> None:
    scene = Scene()
    scene.supervised.stop()
    scene.supervised.poll()
    assert len(scene.starts) == 1


def test_a_query_that_was_done_does_not_count_as_one_that_was_started_again() -> None:
    scene = Scene()
    scene.fail(error=None)
    assert scene.restarts == []


def test_a_start_that_had_to_wait_behind_one_that_was_done_is_no_restart_either() -> None:
    scene = Scene()
    scene.refusals = [AWAY]
    scene.fail(error=None)
    scene.pause()
    assert scene.restarts == []


def test_a_failure_is_one_restart_however_often_the_start_is_tried() -> None:
    scene = Scene(AWAY)
    scene.refusals = [AWAY] * 2
    scene.fail()
    for _ in range(3):
        scene.pause()
    assert scene.restarts == ["router"]


def test_a_restart_that_was_asked_for_counts_once_though_it_catches_up_first() -> None:
    scene = Scene()
    first = scene.starts[-1]
    assert isinstance(first, Query)
    first.error = None
    scene.supervised.restart()
    scene.supervised.poll()
    scene.fail(error=None)  # it has caught up
    assert len(scene.starts) == 3
    assert scene.restarts == ["router"]
