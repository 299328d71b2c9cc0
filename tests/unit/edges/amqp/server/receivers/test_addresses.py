"""What a receiver's source address asks for."""

from __future__ import annotations

import pytest

from isthmus.edges.amqp.protocol import Identity
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.contract import Client
from isthmus.edges.amqp.server.receivers.addresses import Kind, Origin, origin_of
from isthmus.edges.amqp.server.receivers.subscriptions import Subscription, subscription_of
from isthmus.errors import Refused


def test_a_group_is_split_off_at_the_first_mark() -> None:
    address = "orders/group.id/a/group.id/b"
    assert origin_of(Source(address)) == Origin(Kind.GROUP, address, "orders", "a/group.id/b")


def test_slashes_become_dots_in_the_topic_alone() -> None:
    address = "orders/eu/new/group.id/my/group"
    assert origin_of(Source(address)) == Origin(Kind.GROUP, address, "orders.eu.new", "my/group")


@pytest.mark.parametrize(
    ("address", "description"),
    [
        ("orders", "Mandatory group.id not specified in the address"),
        ("orders/group.id", "Mandatory group.id not specified in the address"),
        (None, "Mandatory group.id not specified in the address"),
        ("/group.id/g", "Empty topic in specified address"),
        ("orders/group.id/", "Empty consumer group in specified address"),
        ("/group.id/", "Empty topic in specified address"),
    ],
)
def test_an_address_that_lacks_a_part_is_refused(address: str | None, description: str) -> None:
    with pytest.raises(Refused) as refused:
        origin_of(Source(address))
    assert (refused.value.condition, refused.value.description) == ("io.strimzi:no-group-id", description)


@pytest.mark.parametrize("group", ["jms:shop:news", "jms::news", "jms-queue:orders", "isthmus.main.clients"])
def test_nobody_names_a_group_of_the_bridge_or_of_a_subscription(group: str) -> None:
    with pytest.raises(Refused) as refused:
        origin_of(Source(f"news/group.id/{group}"))
    assert refused.value.condition == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (Source("a/b", capabilities=("queue",)), Kind.QUEUE),
        (Source("a/b", capabilities=("queue",), distribution_mode="copy"), Kind.BROWSER),
        (Source("a/b", capabilities=("topic", "shared")), Kind.TOPIC),
    ],
)
def test_jms_says_by_capability_what_it_wants(source: Source, kind: Kind) -> None:
    assert origin_of(source) == Origin(kind, "a/b", "a.b")


@pytest.mark.parametrize(
    "source",
    [
        Source("isthmus.temporary.1"),
        Source("isthmus.temporary.1", capabilities=("queue",)),
        Source("orders", capabilities=("temporary-queue",)),
    ],
)
def test_the_address_of_a_temporary_queue_is_no_topic(source: Source) -> None:
    assert origin_of(source) == Origin(Kind.TEMPORARY, source.address or "", "")


def test_a_group_in_the_address_outranks_a_capability() -> None:
    assert origin_of(Source("a/group.id/g", capabilities=("queue",))).kind is Kind.GROUP


CLIENT = Client(container_id="shop", identity=Identity("x", ""), user=None, connection_id="1")


@pytest.mark.parametrize(
    ("source", "link", "subscription"),
    [
        (Source("t"), "any", None),
        (Source("t", durable=2, expiry_policy="never"), "news", Subscription("jms:shop:news", True)),
        (
            Source("t", durable=2, capabilities=("shared",)),
            "news|2",
            Subscription("jms:shop:news", True),
        ),
        (
            Source("t", durable=2, capabilities=("shared", "global")),
            "news|global",
            Subscription("jms::news", True),
        ),
        (
            Source("t", capabilities=("shared",)),
            "news|volatile1",
            Subscription("jms:shop:news:volatile", False),
        ),
    ],
)
def test_a_subscription_is_named_by_client_and_link(
    source: Source, link: str, subscription: Subscription | None
) -> None:
    assert subscription_of(source, link, CLIENT) == subscription


def test_a_bare_address_is_a_queue_where_that_is_wanted() -> None:
    assert origin_of(Source("a/b"), bare_is_queue=True) == Origin(Kind.QUEUE, "a/b", "a.b")
    assert origin_of(Source("a", distribution_mode="copy"), bare_is_queue=True).kind is Kind.BROWSER
    assert origin_of(Source("a/group.id/g"), bare_is_queue=True).kind is Kind.GROUP
    assert origin_of(Source("a", capabilities=("topic",)), bare_is_queue=True).kind is Kind.TOPIC
