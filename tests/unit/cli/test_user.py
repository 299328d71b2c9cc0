"""``isthmus user``: what is in the users file afterwards, and what never is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isthmus.cli.user import users
from isthmus.edges.amqp.protocol.sasl import SCRAM_HASHES
from isthmus.edges.amqp.server.users import User, Users
from isthmus.errors import ConfigError

PASSWORD = "pa55word"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users"


def run(*arguments: object, given: str = "") -> Result:
    return CliRunner().invoke(users, list(map(str, arguments)), input=given)


def add(file: Path, *arguments: str, given: str = f"{PASSWORD}\n") -> Result:
    return run("add", file, "alice", "--password-stdin", *arguments, given=given)


def alice(file: Path) -> User:
    found = Users.read(file).find("alice")
    assert found is not None
    return found


def fits(user: User, password: str) -> bool:
    return all(user.secrets[mechanism].fits(password, mechanism) for mechanism in SCRAM_HASHES)


def test_the_password_is_asked_for_twice_and_not_shown(file: Path) -> None:
    result = run("add", file, "alice", given=f"{PASSWORD}\n{PASSWORD}\n")
    assert result.exit_code == 0
    assert fits(alice(file), PASSWORD)
    assert PASSWORD not in result.output
    assert PASSWORD not in file.read_text()


def test_two_different_answers_are_asked_for_again(file: Path) -> None:
    result = run("add", file, "alice", given="one\nother\nthird\nthird\n")
    assert result.exit_code == 0
    assert fits(alice(file), "third")


def test_the_password_may_come_from_standard_input(file: Path) -> None:
    assert add(file).exit_code == 0
    assert fits(alice(file), PASSWORD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("given", ["", "\n"])
def test_no_password_on_standard_input_changes_nothing(file: Path, given: str) -> None:
    assert isinstance(add(file, given=given).exception, ConfigError)
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "send", "receive"),
    [
        ([], ("*",), ("*",)),
        (["--send", "orders.*", "--send", "bills"], ("orders.*", "bills"), ()),
        (["--receive", "news"], (), ("news",)),
        (["--send", "a", "--receive", "b"], ("a",), ("b",)),
    ],
)
def test_patterns_narrow_what_a_user_may(
    file: Path, options: list[str], send: tuple[str, ...], receive: tuple[str, ...]
) -> None:
    assert add(file, *options).exit_code == 0
    assert (alice(file).send, alice(file).receive) == (send, receive)


def test_a_user_with_a_certificate_has_no_password(file: Path) -> None:
    assert run("add", file, "alice", "--certificate").exit_code == 0
    assert alice(file).secrets == {}


def test_a_list_says_what_each_may_and_no_secret(file: Path) -> None:
    add(file, "--send", "orders.*")
    run("add", file, "app", "--certificate")
    assert run("list", file).output.splitlines() == [
        "alice\tpassword\tsend: orders.*\treceive: nothing",
        "app\tcertificate\tsend: *\treceive: *",
    ]


def test_a_user_that_was_removed_is_gone_and_others_stay(file: Path) -> None:
    add(file)
    run("add", file, "app", "--certificate")
    assert run("remove", file, "alice").exit_code == 0
    assert [user.name for user in Users.read(file)] == ["app"]


def test_removing_nobody_is_a_clear_error(file: Path) -> None:
    add(file)
    assert "has no user 'bob'" in str(run("remove", file, "bob").exception)


def test_a_broken_file_is_left_alone(file: Path) -> None:
    file.write_text("not a user\n")
    assert "line 1 is not a user" in str(add(file).exception)
    assert file.read_text() == "not a user\n"


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("a\tb", "x"), ("alice", "\x01")])
def test_what_cannot_be_a_name_or_a_password_is_refused(file: Path, name: str, password: str) -> None:
    result = run("add", file, name, "--password-stdin", given=f"{password}\n")
    assert "cannot be" in str(result.exception)
    assert not file.exists()


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    result = add(tmp_path / "missing" / "users")
    assert "cannot be written: No such file" in str(result.exception)
