from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.embedded import ivy, jars
from isthmus.errors import HardFailure

# Stands in for java, and so for Ivy: notes every run, fails as often as the file `failures` has lines, and
# else puts one jar into the folder of every conf, as the retrieve pattern says.
FAKE_JAVA = """#!/usr/bin/env python3
import sys, time
from pathlib import Path
if "-version" in sys.argv:
    print('openjdk version "17"')
    sys.exit()
here = Path(__file__).parent
with (here / "runs").open("a") as runs:
    runs.write(" ".join(sys.argv[1:]) + "\\n")
time.sleep(0.1)
failures = (here / "failures").read_text().splitlines()
if failures:
    (here / "failures").write_text("\\n".join(failures[1:]))
    print("\\t\\t:: org#name;1: not found")
    print("\\tServer access error at url " + failures[0])
    sys.exit(1)
confs = sys.argv[sys.argv.index("-confs") + 1 : sys.argv.index("-retrieve")]
for conf in confs:
    folder = Path(sys.argv[-1].split("/[conf]")[0]) / conf
    folder.mkdir(parents=True)
    (folder / "name-1.jar").write_text("jar")
    print("\\tfound org#name;1 in public")
    print("\\t[SUCCESSFUL ] org#name;1!name.jar (1ms)")
"""


class FakeIvy:
    """The stand-in, as the tests see it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        (folder / "java").write_text(FAKE_JAVA)
        (folder / "java").chmod(0o755)
        self.fail_with()

    def fail_with(self, *reasons: str) -> None:
        (self._folder / "failures").write_text("\n".join(reasons))

    @property
    def runs(self) -> list[str]:
        runs = self._folder / "runs"
        return runs.read_text().splitlines() if runs.exists() else []


@pytest.fixture
def jars_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISTHMUS_JARS_DIR", str(tmp_path / "jars"))
    return tmp_path / "jars"


@pytest.fixture
def fake_ivy(tmp_path: Path, jars_dir: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-home"))
    monkeypatch.setattr(ivy, "PAUSES_S", (0.01, 0.01))
    return FakeIvy(tmp_path / "java-home" / "bin")


@pytest.fixture
def ivy_xml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "ivy.xml"
    copy.write_text(ivy.IVY_XML.read_text())
    monkeypatch.setattr(ivy, "IVY_XML", copy)
    return copy


def test_jars_are_fetched_once(fake_ivy: FakeIvy, jars_dir: Path) -> None:
    jars.ensure("spark", "broker")
    jars.ensure("broker", "spark")
    assert len(fake_ivy.runs) == 1
    assert [file.name for file in jars.files("spark")] == ["name-1.jar"]
    assert jars.classpath("broker") == str(jars.files("broker")[0])


def test_only_the_missing_confs_are_fetched(fake_ivy: FakeIvy) -> None:
    jars.ensure("spark")
    jars.ensure("spark", "broker")
    assert "-confs broker -retrieve" in fake_ivy.runs[1]


def test_jars_that_are_there_need_no_java_and_no_other_process(
    fake_ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars.ensure("spark", "broker")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(subprocess, "Popen", None)
    jars.ensure("spark", "broker")
    assert len(fake_ivy.runs) == 1


def test_another_version_of_a_jar_is_fetched_for_its_conf_alone(fake_ivy: FakeIvy, ivy_xml: Path) -> None:
    jars.ensure("spark", "broker")
    ivy_xml.write_text(ivy_xml.read_text().replace('rev="2.13.1"', 'rev="2.13.2"'))
    jars.ensure("broker")
    assert len(fake_ivy.runs) == 1
    jars.ensure("spark")
    assert len(fake_ivy.runs) == 2


def test_a_comment_in_ivy_xml_changes_nothing(fake_ivy: FakeIvy, ivy_xml: Path) -> None:
    jars.ensure("spark")
    ivy_xml.write_text(ivy_xml.read_text().replace("<dependencies>", "<dependencies>\n\n<!-- new -->"))
    jars.ensure("spark")
    assert len(fake_ivy.runs) == 1


def test_a_failed_download_is_tried_again(fake_ivy: FakeIvy) -> None:
    fake_ivy.fail_with("first", "second")
    jars.ensure("spark")
    assert len(fake_ivy.runs) == 3
    assert len(jars.files("spark")) == 1


def test_after_the_third_failure_nothing_is_left_behind(fake_ivy: FakeIvy, jars_dir: Path) -> None:
    fake_ivy.fail_with("first", "second", "third (connection reset)")
    with pytest.raises(HardFailure, match=r"third \(connection reset\)"):
        jars.ensure("spark")
    assert [path.name for path in jars_dir.iterdir()] == ["lock"]
    jars.ensure("spark")


def test_processes_that_fetch_at_the_same_time_fetch_once(fake_ivy: FakeIvy) -> None:
    command = [sys.executable, "-m", "isthmus.embedded.jars", "spark", "broker"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert len(fake_ivy.runs) == 1
    assert len(jars.files("broker")) == 1


def test_without_a_terminal_every_jar_is_a_line(fake_ivy: FakeIvy) -> None:
    command = [sys.executable, "-m", "isthmus.embedded.jars", "spark"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stderr.splitlines() == ["fetched name 1"]


def test_an_unknown_conf_is_named_with_those_that_there_are(jars_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"no conf 'brokre' in ivy\.xml; there are spark, broker"):
        jars.ensure("brokre")


def test_a_folder_that_cannot_be_written_to_is_a_hard_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISTHMUS_JARS_DIR", str(tmp_path / "file" / "jars"))
    with pytest.raises(HardFailure, match="no place for the jars") as failure:
        jars.ensure("spark")
    assert "ISTHMUS_JARS_DIR" in failure.value.remedy


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ISTHMUS_JARS_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/isthmus/jars"),
        ({"HOME": "/c"}, "/c/.cache/isthmus/jars"),
    ],
)
def test_the_environment_says_where_jars_are_kept(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ISTHMUS_JARS_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert jars.folder() == Path(expected)


def test_without_network_the_failure_says_what_was_wanted_and_what_to_do(
    jars_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(ivy, "PAUSES_S", ())
    with pytest.raises(HardFailure) as failure:
        jars.ensure("spark")
    assert "jars for spark cannot be fetched" in str(failure.value)
    assert "spark-sql-kafka" in str(failure.value)
    assert "Connection refused" in str(failure.value)
    assert "ISTHMUS_JARS_DIR" in failure.value.remedy
