from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from isthmus.config import load
from isthmus.config.model.nats import NatsIntakeSettings, NatsSettings
from isthmus.config.model.nats_values import Start
from isthmus.errors import ConfigError, SettingsError

SEED = "SU" + "A" * 56


def nats(**keys: str) -> NatsSettings:
    return NatsSettings.of({key.replace("_", "."): value for key, value in keys.items()})


def test_servers_are_urls_with_a_scheme() -> None:
    assert nats(servers="a:4222, tls://b:4222").servers == ("nats://a:4222", "tls://b:4222")


@pytest.mark.parametrize(
    ("servers", "shown"),
    [("a:4222, tls://b:4222", "nats://a:4222, tls://b:4222"), ("nats://me:geheim@a:4222", "********")],
)
def test_servers_are_shown_as_people_write_them(tmp_path: Path, servers: str, shown: str) -> None:
    (tmp_path / "b.properties").write_text(f"nats.servers={servers}")
    assert load(tmp_path / "b.properties", {}).nats.shown_servers == shown


@pytest.mark.parametrize("servers", ["", "http://a:1", "a b", "nats://", "a:99999", "embedded,a:1"])
def test_servers_that_are_none_are_refused(servers: str) -> None:
    with pytest.raises(SettingsError, match="expected embedded, or nats://host:port"):
        nats(servers=servers)


def test_embedded_stands_for_a_server_of_the_bridges_own() -> None:
    assert nats(servers="embedded").embedded


def test_a_password_a_token_and_a_seed_are_never_shown() -> None:
    settings = [nats(user="u", password="geheim"), nats(token="geheim"), nats(nkey=SEED)]
    assert "geheim" not in repr(settings)
    assert SEED not in repr(settings)
    assert settings[0].credentials() == {"user": "u", "password": "geheim"}
    assert settings[2].credentials() == {"nkeys_seed_str": SEED}


def test_two_ways_to_connect_are_refused() -> None:
    with pytest.raises(SettingsError, match="expected one of"):
        nats(user="u", token="t")


def test_a_key_without_its_certificate_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"needs nats\.tls\.cert"):
        nats(tls_key="k.pem")


def test_files_that_are_not_there_are_told_by_their_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nats\.creds: there is no such file"):
        nats(creds=str(tmp_path / "none")).credentials()
    with pytest.raises(ConfigError, match=r"nats\.tls\.ca cannot be used"):
        nats(tls_ca=str(tmp_path / "none")).tls_context()


def test_without_tls_there_is_no_context() -> None:
    assert nats(servers="a:1").tls_context() is None


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", Start("first")),
        ("last", Start("last")),
        ("new", Start("new")),
        ("sequence:42", Start("sequence", sequence=42)),
        ("time:2026-01-31T12:00:00Z", Start("time", time=datetime(2026, 1, 31, 12, tzinfo=UTC))),
        ("time:2026-01-31T12:00:00", Start("time", time=datetime(2026, 1, 31, 12, tzinfo=UTC))),
    ],
)
def test_a_start_is_a_word_a_sequence_or_a_time(text: str, start: Start) -> None:
    assert NatsIntakeSettings.of({"subject": "a", "durable": "d", "start": text}).start == start


@pytest.mark.parametrize("text", ["soon", "sequence:", "sequence:x", "time:tomorrow"])
def test_a_start_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="expected first, last, new"):
        NatsIntakeSettings.of({"subject": "a", "start": text})


@pytest.mark.parametrize("subject", ["a", "a.b", "*", ">", "a.*.b", "a.>"])
def test_wildcards_stand_for_whole_tokens(subject: str) -> None:
    assert NatsIntakeSettings(subject=subject).subject == subject


@pytest.mark.parametrize("subject", ["", "a b", "a..b", ">.a", "a*", "a.b>"])
def test_a_subject_that_is_none_is_refused(subject: str) -> None:
    with pytest.raises(SettingsError, match="expected a NATS subject"):
        NatsIntakeSettings(subject=subject)


def test_a_queue_group_and_a_durable_consumer_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="queue or durable"):
        NatsIntakeSettings(subject="a", queue="q", durable="d")


def test_a_stream_needs_its_consumer() -> None:
    with pytest.raises(SettingsError, match="a stream needs durable"):
        NatsIntakeSettings(subject="a", stream="s")
