from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from isthmus.errors import HardFailure
from isthmus.private import private_folder, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "state")
    assert mode(tmp_path / "state") == 0o700


def test_a_folder_that_is_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_folder(tmp_path)
    assert mode(tmp_path) == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    if owner == 0:
        os.chown(tmp_path, 4711, 4711)
        owner = 4711
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(HardFailure, match="belongs to another user"):
        private_folder(tmp_path)


def test_a_file_is_replaced_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "folder", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
