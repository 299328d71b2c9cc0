from __future__ import annotations

import stat
from pathlib import Path

import pytest

from isthmus.edges.amqp.protocol.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from isthmus.edges.amqp.server.users import User, Users, set_user
from isthmus.errors import ConfigError
from isthmus.routing.reserved import BY_PREFIX, ReservedTopics


def test_users_come_back_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    set_user(file, "alice", "secret", send=["orders.*"], receive=[])
    set_user(file, "bob", "other")
    users = Users.read(file)
    alice = users.find("alice")
    assert alice is not None
    assert (alice.send, alice.receive) == (("orders.*",), ())
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        secret = users.secret("alice", mechanism)
        assert secret is not None
        assert secret.fits("secret", mechanism)
        assert not secret.fits("other", mechanism)


def test_the_file_holds_no_password_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "users"
    set_user(file, "alice", "pa55word")
    assert "pa55word" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_user_that_is_set_again_replaces_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "users"
    set_user(file, "alice", "old")
    set_user(file, "alice", "new")
    secret = Users.read(file).secret("alice", SCRAM_SHA_256)
    assert len(file.read_text().splitlines()) == 1
    assert secret is not None
    assert secret.fits("new", SCRAM_SHA_256)


def test_a_user_without_a_password_has_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "users"
    set_user(file, "app", None)
    users = Users.read(file)
    assert users.find("app") is not None
    assert users.secret("app", SCRAM_SHA_256) is None


@pytest.mark.parametrize(
    "line", ["x", "{}", "[]", '{"user": "", "send": [], "receive": []}', '{"user": "a", "send": "*"}']
)
def test_a_line_that_is_no_user_is_a_clear_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"\n{line}\n")
    with pytest.raises(ConfigError, match="line 2 is not a user"):
        Users.read(file)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Users.read(tmp_path / "missing")


def test_patterns_say_what_a_user_may() -> None:
    user = User("alice", send=("orders.*", "exact"), receive=())
    assert user.may_send("orders.eu", BY_PREFIX)
    assert user.may_send("exact", BY_PREFIX)
    assert not user.may_send("exactly", BY_PREFIX)
    assert not user.may_send("Orders.eu", BY_PREFIX)
    assert not user.may_receive("orders.eu", BY_PREFIX)


RESERVED = ReservedTopics(journal="log", dead_letters="failed")


@pytest.mark.parametrize(
    "address",
    [
        "isthmus.main.journal",
        "isthmus/main/journal",
        "isthmus.other.temporary",
        "__consumer_offsets",
        "log",
        "failed",
    ],
)
@pytest.mark.parametrize("pattern", ["*", "i*", "isthmus.*", "__*", "?*", "[_il]*", "lo*", "fail*"])
def test_no_pattern_includes_a_reserved_topic(address: str, pattern: str) -> None:
    user = User("alice", send=(pattern,), receive=(pattern,))
    assert not user.may_send(address, RESERVED)
    assert not user.may_receive(address, RESERVED)


@pytest.mark.parametrize("address", ["isthmus.main.journal", "isthmus/main/journal"])
def test_a_reserved_topic_is_granted_by_its_name(address: str) -> None:
    user = User("auditor", send=(), receive=("*", "isthmus.main.journal"))
    assert user.may_receive(address, RESERVED)
    assert not user.may_receive("isthmus.main.temporary", RESERVED)
    assert not user.may_send(address, RESERVED)


@pytest.mark.parametrize("address", ["isthmus", "isthmusx.a", "_a", "a__", "logs", "log.x"])
def test_a_topic_with_a_similar_name_is_not_reserved(address: str) -> None:
    assert User("alice").may_send(address, RESERVED)
