"""Room for the router's tasks: in real-time mode every partition holds one for as long as it runs."""

from __future__ import annotations

import os

import pytest

from isthmus.pipeline.session import _with_slots


@pytest.mark.parametrize(
    ("master", "tasks", "expected"),
    [
        ("local", 9, "local[9]"),
        ("local[2]", 9, "local[9]"),
        ("local[16]", 9, "local[16]"),
        ("local[9]", 9, "local[9]"),
    ],
)
def test_a_master_on_this_machine_is_given_room(master: str, tasks: int, expected: str) -> None:
    assert _with_slots(master, tasks) == expected


def test_all_cores_are_used_when_they_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 32)
    assert _with_slots("local[*]", 9) == "local[32]"
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert _with_slots("local[*]", 9) == "local[9]"


def test_a_machine_that_does_not_tell_its_cores_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert _with_slots("local[*]", 1) == "local[1]"


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local[2,4]", "local[9,4]"), ("local[16, 4]", "local[16,4]"), ("local[1 , 4]", "local[9,4]")],
)
def test_a_local_master_that_tries_tasks_again_is_given_room_too(master: str, expected: str) -> None:
    assert _with_slots(master, 9).replace(" ", "") == expected


@pytest.mark.parametrize(
    "master", ["yarn", "spark://host:7077", "k8s://https://host:443", "local-cluster[2,1,1024]"]
)
def test_any_other_master_is_the_operators_business(master: str) -> None:
    assert _with_slots(master, 9) == master
