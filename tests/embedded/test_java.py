from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.embedded.java import java_command
from isthmus.errors import HardFailure


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea", "24.0.1"])
def test_the_java_of_java_home_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_command() == java


def test_without_java_home_the_path_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, "17.0.1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    assert java_command() == java


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_412", 8)])
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HardFailure, match=f"is Java {major}; Isthmus needs 17") as failure:
        java_command()
    assert "Install Java 17" in failure.value.remedy


def test_no_java_is_a_hard_failure_that_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HardFailure, match=f"no java in JAVA_HOME .{tmp_path}"):
        java_command()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HardFailure, match="no java on the PATH"):
        java_command()
