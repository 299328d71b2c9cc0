from __future__ import annotations

import os
from pathlib import Path

import pytest

from isthmus.embedded.class_archive import ClassArchive
from isthmus.embedded.java import java_command

SIGTERM_EXIT, SIGKILL_EXIT = 143, 137


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("ISTHMUS_JARS_DIR", str(tmp_path / "jars"))
    (tmp_path / "jars" / "name-1.jar").write_text("jar")
    return tmp_path / "jars" / "name-1.jar"


def record(archive: ClassArchive, exit_code: int) -> None:
    """What Java does on its way out."""
    [option] = archive.reading_or_recording()
    name, _, file = option.partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    Path(file).write_text("classes")
    archive.keep(exit_code)
    assert not Path(file).exists()


def test_what_the_first_run_records_the_second_one_reads(tmp_path: Path, jar: Path) -> None:
    first = ClassArchive(java_command(), [jar], tmp_path)
    assert first.reading() == []
    record(first, SIGTERM_EXIT)
    second = ClassArchive(java_command(), [jar], tmp_path)
    [option] = second.reading_or_recording()
    assert option == second.reading()[0]
    name, _, file = option.partition("=")
    assert name == "-XX:SharedArchiveFile"
    assert Path(file).read_text() == "classes"


def test_what_a_killed_run_recorded_is_thrown_away(tmp_path: Path, jar: Path) -> None:
    record(ClassArchive(java_command(), [jar], tmp_path), SIGKILL_EXIT)
    assert not ClassArchive(java_command(), [jar], tmp_path).is_recorded


def test_another_jar_of_the_same_name_needs_another_archive(tmp_path: Path, jar: Path) -> None:
    record(ClassArchive(java_command(), [jar], tmp_path), SIGTERM_EXIT)
    os.utime(jar, (1, 1))
    assert not ClassArchive(java_command(), [jar], tmp_path).is_recorded


def test_a_java_that_shares_no_classes_is_not_told_to_record(tmp_path: Path, jar: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n[ $1 != -Xshare:on ]\n")
    java.chmod(0o755)
    assert ClassArchive(java, [jar], tmp_path).reading_or_recording() == []


def test_an_archive_may_be_kept_elsewhere_and_by_a_java_that_ended_by_itself(
    tmp_path: Path, jar: Path
) -> None:
    shelf = tmp_path / "shelf"
    record(ClassArchive(java_command(), [jar], tmp_path, shelf=shelf), 0)
    assert ClassArchive(java_command(), [jar], tmp_path, shelf=shelf).is_recorded
    assert [each.suffix for each in shelf.iterdir()] == [".jsa"]
    assert not ClassArchive(java_command(), [jar], tmp_path).is_recorded
