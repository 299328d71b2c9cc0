"""A client id is in use once: in a process, and in all processes of a bridge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.amqp.kafka_server import receiving_server
from tests.support.amqp.server import RunningServer
from tests.support.amqp.wire import Wire
from tests.support.jms.qpid import JmsShell, QpidJms
from tests.support.names import unique
from tests.support.polling import PATIENCE_S

from isthmus.edges.amqp.protocol import Closed, Open, Opened
from isthmus.edges.amqp.protocol.connection import SOLE_CONNECTION
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka


def test_a_second_connection_with_a_client_id_is_refused_and_the_first_goes_on(qpid: QpidJms) -> None:
    with RunningServer() as server, JmsShell(qpid, server.url) as jms:
        jms.do("connect", "one", "shop")
        assert jms("connect", "two", "shop").startswith("! InvalidClientIDException")
        assert jms("connect", "two", "shop").startswith("! InvalidClientIDException")
        jms.do("session", "s", "one", "auto")
        jms.do("connect", "two", "other")
        jms.do("close", "one")
        jms.do("connect", "one", "shop")


def test_a_client_is_told_that_an_id_is_exclusive_among_those_who_ask_for_that() -> None:
    with RunningServer() as server, Wire(server.port) as wire:
        wire.engine.open(Open("shop"))
        told = wire.until(Opened).open
        assert SOLE_CONNECTION in told.offered_capabilities
        assert told.properties == {
            "sole-connection-enforcement-policy": 0,  # refuse-connection
            "sole-connection-detection-policy": 1,  # weak
        }


def test_a_refusal_names_the_field_that_is_wrong() -> None:
    with RunningServer() as server, Wire(server.port) as one, Wire(server.port) as other:
        for wire in (one, other):
            wire.engine.open(Open("shop", desired_capabilities=(SOLE_CONNECTION,)))
            wire.until(Opened)
        refused = other.until(Closed).error
        assert refused is not None
        assert refused.condition == "amqp:invalid-field"
        assert refused.info == {"invalid-field": "container-id", "invalid-hint": "container-id"}


def test_the_id_of_a_client_that_was_lost_is_free(qpid: QpidJms) -> None:
    with RunningServer() as server:
        with JmsShell(qpid, server.url) as jms:
            jms.do("connect", "one", "shop")
        with JmsShell(qpid, server.url) as jms:
            jms.do("connect", "one", "shop")


def test_processes_of_one_bridge_share_what_is_in_use(qpid: QpidJms, kafka_servers: str) -> None:
    group = unique("clients")
    with (
        bridge_part(kafka_servers, group) as one,
        bridge_part(kafka_servers, group) as other,
        JmsShell(qpid, one) as here,
        JmsShell(qpid, other) as there,
    ):
        here.do("connect", "c", "shop")
        assert there("connect", "c", "shop").startswith("! InvalidClientIDException")
        here.do("close", "c")
        there.do("connect", "c", "shop")
        assert here("connect", "c", "shop").startswith("! InvalidClientIDException")


@contextmanager
def bridge_part(servers: str, group: str) -> Iterator[str]:
    """The URL of a server that shares client ids with others."""
    client = ResilientClient(Kafka(servers), connect_timeout_s=PATIENCE_S)
    locks = NameLocks(client, group, patience_s=PATIENCE_S)
    with receiving_server(servers, "jms", client_ids=locks) as server:
        yield server.url
        server.run(locks.close())
        server.run(client.close())
