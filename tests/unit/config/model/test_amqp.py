from __future__ import annotations

import pytest

from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings
from isthmus.errors import ConfigError, SettingsError


def test_texts_become_typed_values() -> None:
    settings = AmqpSettings.of(
        {
            "port": "0",
            "credit": "10",
            "auto-create": "true",
            "idle-timeout": "30s",
            "max-message-size": "1000",
        }
    )
    assert (settings.port, settings.credit, settings.auto_create) == (0, 10, True)
    assert (settings.idle_timeout_s, settings.max_message_size) == (30.0, 1000)


@pytest.mark.parametrize(
    ("key", "value"),
    [("port", "70000"), ("credit", "0"), ("anonymous", "yes"), ("login-timeout", "soon"), ("unknown", "1")],
)
def test_a_value_that_makes_no_sense_is_refused(key: str, value: str) -> None:
    with pytest.raises(SettingsError):
        AmqpSettings.of({key: value})


@pytest.mark.parametrize(
    ("host", "users_file", "anonymous", "allowed"),
    [
        ("127.0.0.1", None, None, True),
        ("localhost", None, None, True),
        ("::1", None, None, True),
        ("0.0.0.0", None, None, False),
        ("bridge.example", None, None, False),
        ("127.0.0.1", "users", None, False),
        ("0.0.0.0", None, True, True),
        ("127.0.0.1", None, False, False),
    ],
)
def test_clients_need_no_name_only_on_this_machine_or_by_consent(
    host: str, users_file: str | None, anonymous: bool | None, allowed: bool
) -> None:
    given = {"host": host, "users_file": users_file, "anonymous": anonymous}
    settings = AmqpSettings(**{name: value for name, value in given.items() if value is not None})
    assert settings.allows_anonymous is allowed


def test_tls_needs_a_certificate() -> None:
    with pytest.raises(ConfigError, match=r"amqps\.certificate"):
        AmqpsSettings(port=5671).context()
