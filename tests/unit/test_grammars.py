"""Parsers that are kept from one process to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark

from isthmus import grammars

GRAMMAR = 'start: "a"+'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "isthmus" / "grammars"


def test_a_parser_is_kept_where_nobody_else_can_write(cache: Path) -> None:
    grammars.parser("letters", GRAMMAR).parse("aaa")
    assert cache.stat().st_mode & 0o777 == 0o700
    assert (cache / "letters").stat().st_size > 0


def test_a_parser_is_made_from_what_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grammars.parser("letters", GRAMMAR)
    kept = (cache / "letters").read_bytes()
    monkeypatch.setattr(Lark, "save", None)  # so that nothing can be made and kept
    grammars.parser("letters", GRAMMAR).parse("aaa")
    assert (cache / "letters").read_bytes() == kept


def test_another_grammar_is_another_parser() -> None:
    grammars.parser("letters", GRAMMAR)
    grammars.parser("letters", 'start: "b"+').parse("bbb")


def test_what_is_damaged_is_made_again(cache: Path) -> None:
    grammars.parser("letters", GRAMMAR)
    (cache / "letters").write_bytes((cache / "letters").read_bytes()[:100])
    grammars.parser("letters", GRAMMAR).parse("aaa")


def test_without_a_folder_of_its_own_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    grammars.parser("letters", GRAMMAR).parse("aaa")


def test_another_users_folder_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    cache.mkdir(parents=True, mode=0o700)
    grammars.parser("letters", GRAMMAR).parse("aaa")
    assert not list(cache.iterdir())
