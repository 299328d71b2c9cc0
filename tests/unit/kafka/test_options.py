"""Kafka's options, written as Java's clients know them, for the Python client."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError
from isthmus.kafka.blocking import admin_client
from isthmus.kafka.options import Kafka

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'


def translated(**options: str) -> dict[str, object]:
    """Options with ``_`` for ``.``, without the servers."""
    found = Kafka("h:1", {name.replace("_", "."): value for name, value in options.items()}).python_options()
    assert found.pop("bootstrap.servers") == "h:1"
    return found


def test_java_gets_everything_as_it_is_written() -> None:
    options = {"linger.ms": "5", "sasl.jaas.config": PLAIN.format("u", "p")}
    assert Kafka("a:1,b:2", options).java_options() == {"bootstrap.servers": "a:1,b:2", **options}


def test_python_needs_no_more_than_the_servers() -> None:
    assert Kafka("a:1,b:2").python_options() == {"bootstrap.servers": "a:1,b:2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("client.id", "bridge"),
        ("ssl.endpoint.identification.algorithm", "https"),
    ],
)
def test_options_of_the_same_name_are_handed_on(name: str, value: str) -> None:
    assert Kafka("h:1", {name: value}).python_options()[name] == value


@pytest.mark.parametrize("name", ["linger.ms", "max.poll.records", "buffer.memory"])
def test_tuning_for_java_is_left_to_java(name: str) -> None:
    assert Kafka("h:1", {name: "1"}).python_options() == {"bootstrap.servers": "h:1"}


@pytest.mark.parametrize(
    ("username", "password", "expected"),
    [
        ("alice", "s3cret", ("alice", "s3cret")),
        ("", "", ("", "")),
        ("a b", "x=y;z'", ("a b", "x=y;z'")),
        (r"a\"b", r"back\\slash", ('a"b', "back\\slash")),
        ("ü", "世界", ("ü", "世界")),
    ],
)
def test_a_jaas_login_becomes_username_and_password(
    username: str, password: str, expected: tuple[str, str]
) -> None:
    assert translated(sasl_jaas_config=PLAIN.format(username, password)) == {
        "sasl.username": expected[0],
        "sasl.password": expected[1],
    }


def test_a_jaas_login_may_be_written_in_any_layout() -> None:
    jaas = 'x.ScramLoginModule required\n  password = "p"\n  username= "u"\n  tokenauth="false" ;'
    assert translated(sasl_jaas_config=jaas) == {"sasl.username": "u", "sasl.password": "p"}


@pytest.mark.parametrize(
    "jaas",
    [
        "",
        "x.Krb5LoginModule required useKeyTab=true;",
        'x required username="u";',
        'x required password="p";',
        'x required username="u" password="p;',
    ],
)
def test_a_jaas_login_without_username_or_password_is_refused_without_showing_it(jaas: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.jaas\.config") as caught:
        translated(sasl_jaas_config=jaas)
    assert '"u"' not in str(caught.value)
    assert '"p' not in str(caught.value)


def test_pem_files_are_handed_on_under_the_names_that_python_has() -> None:
    assert translated(
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_type="pem",
        ssl_keystore_location="/me.pem",
        ssl_key_password="k",
    ) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "k",
    }


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("type", ["JKS", "jks", "PKCS12"])
def test_a_store_that_only_java_reads_is_refused(store: str, type: str) -> None:
    with pytest.raises(ConfigError, match=rf"kafka\.ssl\.{store}\.type={type}: only PEM"):
        translated(**{f"ssl_{store}_type": type, f"ssl_{store}_location": "/store"})


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_without_a_type_is_jks_to_java_and_refused(store: str) -> None:
    with pytest.raises(ConfigError, match=rf"kafka\.ssl\.{store}\.type"):
        translated(**{f"ssl_{store}_location": "/store.jks"})


def test_certificates_in_the_configuration_itself_are_handed_on() -> None:
    options = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": "KEY",
    }
    assert Kafka("h:1", options).python_options() == {
        "bootstrap.servers": "h:1",
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CHAIN",
        "ssl.key.pem": "KEY",
    }


def test_no_check_of_the_hosts_name_is_an_empty_text_to_java_and_none_to_python() -> None:
    options = {"ssl.endpoint.identification.algorithm": ""}
    assert Kafka("h:1", options).python_options()["ssl.endpoint.identification.algorithm"] == "none"
    assert Kafka("h:1", options).java_options()["ssl.endpoint.identification.algorithm"] == ""


def test_no_option_is_shown_where_a_kafka_is() -> None:
    assert "s3cret" not in repr(Kafka("h:1", {"sasl.jaas.config": PLAIN.format("alice", "s3cret")}))


def test_an_option_that_the_client_does_not_take_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.\*: .*security\.protocol"):
        admin_client(Kafka("127.0.0.1:1", {"security.protocol": "TELEPATHY"}))


def test_clients_on_the_loop_need_no_more_than_the_servers() -> None:
    assert Kafka("a:1,b:2").async_options() == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "PLAINTEXT",
    }


def test_clients_on_the_loop_have_their_own_names_for_passwords() -> None:
    options = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": PLAIN.format("alice", "s3cret"),
        "client.id": "bridge",
    }
    assert Kafka("h:1", options).async_options() == {
        "bootstrap_servers": "h:1",
        "client_id": "bridge",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "s3cret",
    }


@pytest.mark.parametrize("mechanism", [{}, {"sasl.mechanism": "GSSAPI"}])
def test_a_mechanism_without_a_password_is_refused(mechanism: dict[str, str]) -> None:
    options = {"security.protocol": "SASL_PLAINTEXT", **mechanism}
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.mechanism must be one of PLAIN, SCRAM"):
        Kafka("h:1", options).async_options()


@pytest.mark.parametrize("certificates", ["no certificate", "kein Schlüssel"])
def test_what_is_no_certificate_is_told_as_such(certificates: str) -> None:
    options = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates,
    }
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.\*: "):
        Kafka("h:1", options).async_options()
