"""Senders at the AMQP server, with proton's client: an implementation that is not ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Message  # noqa: E402
from proton.reactor import AtMostOnce  # noqa: E402
from proton.utils import BlockingConnection, LinkDetached, SendException  # noqa: E402
from tests.support.amqp.server import RunningServer  # noqa: E402
from tests.support.journals import refusing  # noqa: E402
from tests.support.polling import eventually  # noqa: E402

from isthmus.edges.amqp.server import incoming_link  # noqa: E402
from isthmus.errors import HardFailure  # noqa: E402


def serve(connection: BlockingConnection, condition: Callable[[], bool]) -> None:
    """Let proton work until something holds at the server, of which proton hears nothing by itself."""

    def holds() -> bool:
        with suppress(proton.Timeout):
            connection.wait(condition, timeout=0.05)
        return condition()

    eventually(holds, timeout_s=20)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer() as server:
        yield server


@pytest.fixture
def connection(server: RunningServer) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(server.url, timeout=60)
    yield connection
    connection.close()


def test_a_message_is_in_the_journal_as_it_was_sent(
    server: RunningServer, connection: BlockingConnection
) -> None:
    message = Message("hello", id="ID:1", subject="greeting", properties={"region": "EU", "count": 7})
    connection.create_sender("orders").send(message)
    [entry] = server.memory.entries
    assert (entry.op, entry.message.address, entry.message.protocol) == ("ADD", "orders", "amqp")
    assert entry.message.value == bytes(message.encode())
    assert entry.message.headers["region"].text == "EU"
    assert entry.message.body.slice(entry.message.value) == b"hello"


def test_a_message_is_accepted_only_once_the_journal_has_it(
    server: RunningServer, connection: BlockingConnection
) -> None:
    sender = connection.create_sender("orders")
    server.memory.held = True
    sent = threading.Event()

    def send() -> None:
        sender.send(Message("x"))
        sent.set()

    sending = threading.Thread(target=send)
    sending.start()
    eventually(lambda: server.memory.waiting == 1, timeout_s=10)
    assert not sent.is_set()
    server.release()
    sending.join(10)
    assert sent.is_set()


def test_what_kafka_refuses_is_rejected_with_its_reason(
    server: RunningServer, connection: BlockingConnection
) -> None:
    server.memory.refuse = refusing(HardFailure("not today", remedy="none"))
    sender = connection.create_sender("orders")
    with pytest.raises(SendException) as caught:
        sender.send(Message("x"))
    assert caught.value.state == proton.Delivery.REJECTED


def test_to_outranks_the_target(server: RunningServer, connection: BlockingConnection) -> None:
    connection.create_sender("orders").send(Message("x", address="returns"))
    assert server.memory.entries[0].message.address == "returns"


def test_an_anonymous_relay_takes_the_address_from_to(
    server: RunningServer, connection: BlockingConnection
) -> None:
    sender = connection.create_sender(None)
    for number in range(20):
        sender.send(Message(str(number), address=f"topic-{number % 3}"))
    assert [entry.message.address for entry in server.memory.entries] == [f"topic-{n % 3}" for n in range(20)]


def test_a_relay_to_ever_new_addresses_remembers_only_some(
    server: RunningServer, connection: BlockingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_link, "KEPT", 3)
    sender = connection.create_sender(None)
    for number in range(20):
        sender.send(Message(str(number), address=f"topic-{number}"))
    assert [entry.message.address for entry in server.memory.entries] == [f"topic-{n}" for n in range(20)]
    [connection] = server.amqp._connections
    [link] = [link for session in connection.engine.sessions.values() for link in session.links.values()]
    assert 1 <= len(link.handler._checked) <= 3


def test_messages_keep_their_order_while_an_address_is_looked_up(server: RunningServer) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    sender = connection.create_sender(None)
    for number in range(50):
        sender.link.send(Message(str(number), address=f"topic-{number % 5}"))
    serve(connection, lambda: len(server.memory.entries) == 50)
    bodies = [entry.message.body.slice(entry.message.value) for entry in server.memory.entries]
    assert bodies == [str(number).encode() for number in range(50)]
    connection.close()


def test_an_anonymous_relay_refuses_a_message_without_an_address(
    server: RunningServer, connection: BlockingConnection
) -> None:
    with pytest.raises(SendException):
        connection.create_sender(None).send(Message("x"))
    assert server.memory.entries == []


def test_a_message_to_nowhere_is_rejected_and_the_next_one_is_not(
    server: RunningServer, connection: BlockingConnection
) -> None:
    sender = connection.create_sender(None)
    with pytest.raises(SendException):
        sender.send(Message("x", address="no-where"))
    sender.send(Message("y", address="orders"))
    assert [entry.message.address for entry in server.memory.entries] == ["orders"]


def test_a_target_that_does_not_exist_is_not_found(
    server: RunningServer, connection: BlockingConnection
) -> None:
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        connection.create_sender("no-where")


def test_settled_messages_reach_the_journal_too(
    server: RunningServer, connection: BlockingConnection
) -> None:
    sender = connection.create_sender("orders", options=AtMostOnce())
    for number in range(10):
        sender.send(Message(str(number)))
    connection.create_sender("orders", name="other").send(Message("last"))
    assert len(server.memory.entries) == 11


def test_credit_is_given_back_so_that_a_link_never_stalls() -> None:
    with RunningServer(credit=3) as server:
        connection = BlockingConnection(server.url, timeout=60)
        sender = connection.create_sender("orders")
        for number in range(50):
            sender.send(Message(str(number)))
        connection.close()
        assert len(server.memory.entries) == 50


def test_credit_stops_while_the_journal_is_away_and_goes_on_after() -> None:
    with RunningServer(credit=4) as server:
        server.memory.held = True
        connection = BlockingConnection(server.url, timeout=60)
        sender = connection.create_sender("orders")
        connection.wait(lambda: sender.link.credit > 0)
        while sender.link.credit > 0:
            sender.link.send(Message("x"))
        serve(connection, lambda: server.memory.waiting == 4)
        assert sender.link.credit == 0
        server.release()
        connection.wait(lambda: sender.link.credit > 0)
        sender.send(Message("after"))
        assert len(server.memory.entries) == 5
        connection.close()


@pytest.mark.parametrize("name", ["isthmus.op", "ISTHMUS.x", "jmsbridge.origin", "JMS.Types", "jms.types"])
def test_names_of_the_bridge_cannot_be_set(
    server: RunningServer, connection: BlockingConnection, name: str
) -> None:
    with pytest.raises(SendException):
        connection.create_sender("orders").send(Message("x", properties={name: "forged"}))
    assert server.memory.entries == []


def test_a_property_called_types_is_only_renamed(
    server: RunningServer, connection: BlockingConnection
) -> None:
    connection.create_sender("orders").send(Message("x", properties={"types": "mine"}))
    assert server.memory.entries[0].message.headers["property.types"].text == "mine"


@pytest.mark.parametrize("annotations", [{"x-opt-bridge.partition": "one"}, {"x-opt-bridge.key": 1}])
def test_annotations_of_the_wrong_type_are_rejected(
    server: RunningServer, connection: BlockingConnection, annotations: dict[str, object]
) -> None:
    with pytest.raises(SendException):
        connection.create_sender("orders").send(Message("x", annotations=annotations))
    assert server.memory.entries == []


def test_a_message_of_many_frames_arrives_whole(
    server: RunningServer, connection: BlockingConnection
) -> None:
    body = bytes(n % 256 for n in range(900_000))
    connection.create_sender("orders").send(Message(body))
    message = server.memory.entries[0].message
    assert message.body.slice(message.value) == body


def test_a_message_that_is_too_large_detaches_the_link() -> None:
    with RunningServer(max_message_size=1000) as server:
        connection = BlockingConnection(server.url, timeout=60)
        sender = connection.create_sender("orders")
        assert sender.link.remote_max_message_size == 1000
        with pytest.raises(LinkDetached, match="message-size-exceeded"):
            sender.send(Message(b"x" * 1001))
        connection.create_sender("orders", name="other").send(Message(b"small"))
        assert len(server.memory.entries) == 1
        connection.close()


def test_reading_stops_while_too_many_bytes_are_under_way() -> None:
    with RunningServer(max_unsettled_bytes=10_000) as server:
        server.memory.held = True
        connection = BlockingConnection(server.url, timeout=60)
        sender = connection.create_sender("orders")
        connection.wait(lambda: sender.link.credit > 0)
        for _ in range(500):
            sender.link.send(Message(b"x" * 10_000))
        serve(connection, lambda: server.memory.waiting > 0)
        assert server.memory.waiting < 500
        server.release()
        serve(connection, lambda: len(server.memory.entries) == 500)
        connection.close()


def test_nobody_is_read_while_too_many_bytes_of_all_are_under_way() -> None:
    with RunningServer(max_total_unsettled_bytes=20_000) as server:
        server.memory.held = True
        connections = [BlockingConnection(server.url, timeout=60) for _ in range(2)]
        for connection in connections:
            sender = connection.create_sender("orders")
            connection.wait(lambda sender=sender: sender.link.credit > 0)
            for _ in range(500):
                sender.link.send(Message(b"x" * 10_000))

        def arrived() -> int:
            for connection in connections:
                with suppress(proton.Timeout):
                    connection.wait(lambda: False, timeout=0.1)
            return server.memory.waiting + len(server.memory.entries)

        most = max(arrived() for _ in range(3))
        assert 0 < most < 500
        server.release()
        eventually(lambda: arrived() == 1000, timeout_s=20)
        for connection in connections:
            connection.close()


def test_a_message_without_an_id_gets_one(server: RunningServer, connection: BlockingConnection) -> None:
    sender = connection.create_sender("orders")
    sender.send(Message("a"))
    sender.send(Message("b"))
    first, second = (entry.message.id for entry in server.memory.entries)
    assert first.startswith("ID:")
    assert first != second


def test_garbage_is_rejected_and_the_connection_goes_on(
    server: RunningServer, connection: BlockingConnection
) -> None:
    sender = connection.create_sender("orders")
    delivery = sender.link.delivery("bad")
    sender.link.stream(b"\x00\x53\x99\x00")
    sender.link.advance()
    connection.wait(lambda: delivery.remote_state != 0)
    assert delivery.remote_state == proton.Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:decode-error"
    sender.send(Message("good"))
    assert len(server.memory.entries) == 1


def test_receiving_is_refused_where_nothing_can_be_received(connection: BlockingConnection) -> None:
    with pytest.raises(LinkDetached, match="amqp:not-implemented"):
        connection.create_receiver("orders")


def test_many_clients_are_served_at_a_time(server: RunningServer) -> None:
    def send() -> None:
        connection = BlockingConnection(server.url, timeout=60)
        sender = connection.create_sender("orders")
        for number in range(20):
            sender.send(Message(str(number)))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    by_session: dict[str, list[bytes | None]] = {}
    for entry in server.memory.entries:
        body = entry.message.body.slice(entry.message.value)
        by_session.setdefault(entry.message.session, []).append(body)
    assert list(by_session.values()) == [[str(n).encode() for n in range(20)]] * 8
