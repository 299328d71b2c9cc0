"""The keys under ``mq.``: what is taken, what is refused, and what nobody sees."""

from __future__ import annotations

import pytest

from isthmus.config.model.mq import MqIntakeSettings, MqSettings
from isthmus.edges.mq.client import client_options, queue_manager
from isthmus.errors import SettingsError

FULL = {
    "queue-manager": "QM1",
    "channel": "DEV.APP.SVRCONN",
    "address": "mq-1(1414),mq-2(1414)",
    "user": "app",
    "password": "hush-hush",
    "tls.cipher-spec": "ANY_TLS12_OR_HIGHER",
    "tls.key-repository": "/keys/client",
    "tls.certificate-label": "bridge",
    "library": "/opt/mqm/lib64/libmqm_r.so",
    "reconnect.max-wait": "30s",
}


def test_every_key_reaches_the_client() -> None:
    settings = MqSettings(**FULL)
    options = client_options(settings)
    assert (options.queue_manager, options.channel, options.address) == (
        *("QM1", "DEV.APP.SVRCONN", "mq-1(1414),mq-2(1414)"),
    )
    assert (options.user, options.password, options.library) == (
        *("app", "hush-hush", "/opt/mqm/lib64/libmqm_r.so"),
    )
    assert (options.cipher_spec, options.key_repository, options.certificate_label) == (
        *("ANY_TLS12_OR_HIGHER", "/keys/client", "bridge"),
    )
    assert settings.max_backoff_s == 30


def test_nobody_sees_the_password() -> None:
    settings = MqSettings(**FULL)
    shown = (settings, client_options(settings), queue_manager(settings).description)
    assert "hush-hush" not in repr(shown)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"channel": "C"}, "mq.channel and mq.address"),
        ({"address": "host(1414)"}, "mq.channel and mq.address"),
        ({"address": "host:1414", "channel": "C"}, r"host\(port\)"),
        ({"password": "p"}, "needs mq.user"),
        ({"queue-manager": "not a name"}, "a name of MQ's"),
        ({"channel": "x" * 21, "address": "h(1)"}, "a channel's name"),
        ({"client": "other"}, "ibm or memory"),
        ({"colour": "red"}, "colour: unknown"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        MqSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "queue or topic"),
        ({"queue": "Q", "topic": "t"}, "queue or topic"),
        ({"queue": "Q", "durable": "d"}, "durable needs topic"),
        ({"queue": "with blanks"}, "a name of MQ's"),
        ({"queue": "Q", "batch": "0"}, "from 1 to 5000"),
        ({"queue": "Q", "whole-groups": "yes"}, "true or false"),
        ({"queue": "Q", "backout.to": "nowhere"}, "dead-letter or backout-queue"),
    ],
)
def test_an_intake_that_cannot_work_is_refused(settings: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        MqIntakeSettings(**settings)


def test_an_intake_has_one_address() -> None:
    assert MqIntakeSettings(queue="Q").address == "Q"
    assert MqIntakeSettings(topic="a/b", durable="d").address == "a/b"
    assert MqIntakeSettings(queue="Q", **{"whole-groups": "true"}).whole_groups is True


def test_the_one_in_memory_says_that_it_is_not_ibm_s() -> None:
    manager = queue_manager(MqSettings(client="memory", queue_manager="DEMO"))
    assert manager.description == "in-memory queue manager DEMO: stands in for IBM MQ"
    assert manager is queue_manager(MqSettings(client="memory", queue_manager="DEMO"))
    connection = manager.connect()
    assert connection.open_queue("MADE.WHEN.NEEDED").get() is None
    connection.disconnect()
