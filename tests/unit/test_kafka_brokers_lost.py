"""Whether a client of Kafka's is useless shows in its statistics."""

from __future__ import annotations

import json

import pytest

from isthmus.kafka import BrokersLost, watching_brokers


def statistics(*sources: str) -> str:
    brokers = {f"{source}:{number}": {"source": source, "nodeid": 1} for number, source in enumerate(sources)}
    return json.dumps({"name": "a client", "brokers": brokers, "topics": {}})


def test_a_client_that_knows_no_broker_twice_in_a_row_is_lost() -> None:
    look = watching_brokers()["stats_cb"]
    look(statistics("learned"))
    look(statistics())
    with pytest.raises(BrokersLost, match="lost its brokers"):
        look(statistics())


def test_a_client_that_finds_new_brokers_is_not_lost() -> None:
    look = watching_brokers()["stats_cb"]
    for found in ("configured", "learned"):
        look(statistics())
        look(statistics(found))


def test_what_stands_for_brokers_inside_the_client_does_not_count() -> None:
    look = watching_brokers()["stats_cb"]
    look(statistics("logical", "internal"))
    with pytest.raises(BrokersLost):
        look(statistics("logical", "internal"))


def test_each_client_is_watched_by_itself() -> None:
    watching_brokers()["stats_cb"](statistics())
    watching_brokers()["stats_cb"](statistics())
