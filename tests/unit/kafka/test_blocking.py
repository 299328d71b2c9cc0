"""Whether a client of Kafka's is useless shows in its statistics."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, KafkaException

from isthmus.kafka import blocking
from isthmus.kafka.blocking import BrokersLost, LastingAdmin, watching_brokers
from isthmus.kafka.options import Kafka


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


class Admin:
    """Stands for a client: it answers with its number, or fails."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.failure: int | None = None

    def answer(self) -> int:
        if self.failure is not None:
            raise KafkaException(KafkaError(self.failure))
        return self.number


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Admin]:
    made: list[Admin] = []

    def admin(_: Kafka) -> Admin:
        made.append(Admin(len(made)))
        return made[-1]

    monkeypatch.setattr(blocking, "admin_client", admin)
    return made


def test_a_lasting_client_is_replaced_when_it_does_not_reach_kafka(clients: list[Admin]) -> None:
    lasting = LastingAdmin(Kafka("h:1"))
    assert lasting.ask(Admin.answer) == 0  # type: ignore[arg-type]
    clients[0].failure = KafkaError._TIMED_OUT
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        lasting.ask(Admin.answer)  # type: ignore[arg-type]
    assert lasting.ask(Admin.answer) == 1  # type: ignore[arg-type]


def test_a_lasting_client_stays_when_kafka_refuses(clients: list[Admin]) -> None:
    lasting = LastingAdmin(Kafka("h:1"))
    clients[0].failure = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException):
        lasting.ask(Admin.answer)  # type: ignore[arg-type]
    assert len(clients) == 1
