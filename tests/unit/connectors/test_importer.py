from __future__ import annotations

import re
from pathlib import Path

import javaproperties
import pytest
from typer.testing import CliRunner

from isthmus.cli.import_ import importing
from isthmus.config.model.connectors import ConnectorSettings
from isthmus.config.model.mq import MqSettings
from isthmus.config.model.plan import plan
from isthmus.connectors.importer import convert
from isthmus.errors import ConfigError

OLD = """
reconnectinterval: 5000,

nats: {
  Servers: ["localhost:4222", "nats://other:4222"],
  ConnectTimeout: 5000,
  MaxReconnects: 5,
  ReconnectWait: 2000,
  username: app
  password: $NATS_PASSWORD
  tls: { root: /a/ca.pem }
}
stan: { ClusterID: "test-cluster", ClientID: "mqbridge" }
monitoring: { httpport: -1, httphost: "" }

connect: [
  {
      type: Queue2NATS,
      id: "alpha one",
      mq: {
        ConnectionName: "localhost(1414)",
        ChannelName: "DEV.APP.SVRCONN",
        QueueManager: "QM1",
        UserName: "",
        Password: "",
        sslpeername: CN=x
      },
      queue: "DEV.QUEUE.1",
      subject: "one",
      excludeheaders: true,
  },{
      type: stan2queue, channel: two, durablename: d, startatsequence: -1, usepolling: true
      queue: "DEV.QUEUE.2",
  },
],
"""


def keys(text: str) -> dict[str, str]:
    return dict(javaproperties.loads(text))


def test_an_old_configuration_becomes_ours() -> None:
    assert keys(convert(OLD).text) == {
        "nats.servers": "localhost:4222,nats://other:4222",
        "nats.user": "app",
        "nats.password": "${env:NATS_PASSWORD}",
        "nats.reconnect.max-wait": "2000ms",
        "nats.tls.ca": "/a/ca.pem",
        "monitor.host": "0.0.0.0",
        "monitor.port": "0",
        "nats.jetstream.create": "true",
        "connectors.alpha-one.type": "Queue2NATS",
        "connectors.alpha-one.mq.connectionname": "localhost(1414)",
        "connectors.alpha-one.mq.channelname": "DEV.APP.SVRCONN",
        "connectors.alpha-one.mq.queuemanager": "QM1",
        "connectors.alpha-one.mq.sslpeername": "CN=x",
        "connectors.alpha-one.queue": "DEV.QUEUE.1",
        "connectors.alpha-one.subject": "one",
        "connectors.alpha-one.excludeheaders": "true",
        "connectors.stan2queue-2.type": "stan2queue",
        "connectors.stan2queue-2.channel": "two",
        "connectors.stan2queue-2.durablename": "d",
        "connectors.stan2queue-2.startatsequence": "-1",
        "connectors.stan2queue-2.queue": "DEV.QUEUE.2",
    }


def test_a_credentials_file_is_ours_too() -> None:
    converted = convert('nats: { Servers: [a], CredsFile: "/a/b.creds" }').text
    assert keys(converted)["nats.creds"] == "/a/b.creds"


def test_without_channels_no_streams_are_made() -> None:
    old = "connect: [ { type: Queue2NATS, queue: Q, subject: s } ]"
    assert "nats.jetstream.create" not in keys(convert(old).text)


def test_what_has_no_equal_is_a_comment() -> None:
    comments = "\n".join(line for line in convert(OLD).text.splitlines() if line.startswith("#"))
    for key in (
        "reconnectinterval=5000",
        "nats.maxreconnects=5",
        "nats.connecttimeout=5000",
        "stan.clusterid",
        "connectors.stan2queue-2.usepolling=true",
    ):
        assert f"# {key}" in comments


EVERY_KEY = """
reconnectinterval: 1
nats: { servers: [a], connecttimeout: 1, reconnectwait: 1, maxreconnects: 1,
        tls: { root: r, cert: c, key: k }, username: u, password: p, credsfile: f }
stan: { clusterid: a, clientid: a, pubackwait: 1, discoverprefix: a, maxpubacksinflight: 1, connectwait: 1 }
logging: { time: true, debug: true, trace: true, colors: true, pid: true }
monitoring: { httphost: h, httpport: 1, httpsport: 1, tls: { root: r, cert: c, key: k } }
connect: [ { id: i, type: Stan2Queue, channel: c, durablename: d, startatsequence: 1, startattime: 0,
             subject: s, natsqueue: q, topic: t, queue: Q, usepolling: true, incomingbuffersize: 1,
             incomingmessagewait: 1, excludeheaders: true,
             mq: { connectionname: "h(1)", channelname: C, queuemanager: Q, username: u, password: p,
                   keyrepository: k, certificatelabel: l, sslpeername: CN=x } } ]
"""


def test_every_key_of_the_nats_mq_bridge_is_known() -> None:
    text, left_out = convert(EVERY_KEY)
    assert not [each for each in left_out if "not a key" in each.why]
    assert [str(each) for each in left_out] == re.findall("(?m)^# .*=.*: .*$", text)
    assert {each.key.partition(".")[0] for each in left_out} == {
        "reconnectinterval", "nats", "stan", "logging", "monitoring", "connectors",
    }  # fmt: skip


def test_a_key_that_nobody_knows_is_said_to_be_none() -> None:
    [left] = convert("nats: { servers: [a], tls: { insecure: true } }").left_out
    assert left == ("nats.tls.insecure", "true", "not a key of the NATS-MQ bridge")


def test_tls_has_the_cipher_that_was_fixed_in_the_nats_mq_bridge() -> None:
    assert keys(convert(EVERY_KEY).text)["mq.tls.cipher-spec"] == "TLS_RSA_WITH_AES_128_CBC_SHA256"


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        ("startattime: 5, startatsequence: 7", {"startattime": "5"}),
        ("startattime: 0, startatsequence: 7", {"startatsequence": "7"}),
    ],
)
def test_a_time_counts_before_a_sequence(start: str, kept: dict[str, str]) -> None:
    out = keys(convert(f"connect: [ {{ id: a, type: Stan2Queue, channel: c, queue: Q, {start} }} ]").text)
    assert {key.rpartition(".")[2]: out[key] for key in out if ".startat" in key} == kept


def test_monitoring_that_was_off_opens_no_port_to_others() -> None:
    text, [left] = convert("monitoring: { httpport: 0 }")
    assert left.key == "monitoring.httpport"
    assert keys(text) == {}


def test_an_included_file_is_read_from_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "nats.conf").write_text("nats: { include servers.conf }")
    (tmp_path / "more" / "servers.conf").write_text("servers: [$HOST]")
    out = convert('HOST: "a:4222"\ninclude "./more/nats.conf"', tmp_path).text
    assert keys(out)["nats.servers"] == "a:4222"


@pytest.mark.parametrize(
    ("included", "message"),
    [
        ("a: {", r"line 2, column 9: .*b\.conf: line 1, column 5: the file ends"),
        ("include b.conf", "a file that includes itself"),
        (None, r"line 2, column 9: .*b\.conf cannot be read: No such file"),
    ],
)
def test_an_included_file_that_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, included: str | None, message: str
) -> None:
    if included is not None:
        (tmp_path / "b.conf").write_text(included)
    with pytest.raises(ConfigError, match=message):
        convert("\ninclude b.conf", tmp_path)


def test_the_connectors_that_come_out_can_be_planned() -> None:
    groups: dict[str, dict[str, str]] = {}
    for key, value in keys(convert(OLD).text).items():
        if key.startswith("connectors."):
            _, id, part = key.split(".", 2)
            groups.setdefault(id, {})[part] = value
    made = plan({id: ConnectorSettings.of(parts) for id, parts in groups.items()}, MqSettings())
    assert [route.destination for route in made.routes] == ["core:one", "DEV.QUEUE.2"]


def test_connectors_of_one_name_are_told_apart() -> None:
    entry = "{ type: Queue2NATS, id: a, queue: Q, subject: s }"
    out = keys(convert(f"connect: [ {entry}, {entry} ]").text)
    assert {key.split(".")[1] for key in out} == {"a", "a-2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("connect: [\n  { queue: Q } ]", "line 2, column 3: a connector without type"),
        ("connect: [ { type: Queue2NATS,\n queue: Q } ]", "line 1, column 12: Queue2NATS needs subject"),
        ("connect: [ { type: Foo } ]", "line 1, column 20: type: expected one of"),
        ("nats: 5", "line 1, column 7: nats: expected a map"),
        ("monitoring: { httpport: x }", "line 1, column 25: expected a number"),
        (
            "connect: [ { type: Queue2NATS, queue: [1], subject: s } ]",
            "line 1, column 39: expected one value",
        ),
        ("a: {", "line 1, column 5: the file ends where"),
    ],
)
def test_what_cannot_be_right_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        convert(text)
    assert str(error.value).startswith(message)


def test_the_command_prints_the_new_configuration(tmp_path: Path) -> None:
    file = tmp_path / "old.conf"
    file.write_text(OLD)
    result = CliRunner().invoke(importing, ["nats-mq", str(file)])
    assert result.exit_code == 0
    assert result.stdout == convert(OLD).text
    assert result.stderr.startswith("left out, with the reason as a comment: reconnectinterval, nats.")


def test_the_command_names_the_file_that_it_cannot_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(importing, ["nats-mq", str(tmp_path / "none.conf")])
    assert isinstance(result.exception, ConfigError)
    assert "none.conf cannot be read" in str(result.exception)
