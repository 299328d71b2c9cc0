"""The syntax of the file: escapes, lines, duplicates, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.config import Severity, load
from isthmus.config.syntax.properties import MAX_BYTES, read
from isthmus.errors import ConfigError


def test_every_key_knows_its_line(write):
    entries, problems = read(write("# comment\n\nbridge.id=a\n! another\nstate.dir = b\n"))
    assert {key: (entry.value, entry.line) for key, entry in entries.items()} == {
        "bridge.id": ("a", 3),
        "state.dir": ("b", 5),
    }
    assert problems == []


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_whatever_ends_them(write, newline):
    entries, _ = read(write(newline.join(["a=1 \\", "   2", "", "b=3"])))
    assert [(entry.key, entry.value, entry.line) for entry in entries.values()] == [
        ("a", "1 2", 1),
        ("b", "3", 4),
    ]


def test_escapes_and_separators_are_those_of_java(write):
    entries, _ = read(write("a\\ key : \\u00e9\\t\\\\\nflag\ncolon:x\nblank y\nemoji=\\ud83d\\ude00"))
    assert {key: entry.value for key, entry in entries.items()} == {
        "a key": "é\t\\",
        "flag": "",
        "colon": "x",
        "blank": "y",
        "emoji": "😀",
    }


def test_a_later_key_overrides_the_earlier_one_and_keeps_its_place(write):
    entries, problems = read(write("a=1\nb=2\na=3\n"))
    assert [(entry.key, entry.value, entry.line) for entry in entries.values()] == [
        ("a", "3", 3),
        ("b", "2", 2),
    ]
    (note,) = problems
    assert note.severity is Severity.NOTE
    assert (note.line, note.message) == (3, "overrides line 1, in its place")


def test_utf8_is_read_with_and_without_a_byte_order_mark(write):
    for content in ("key=naïve".encode(), "key=naïve".encode("utf-8-sig")):
        entries, _ = read(write(content))
        assert entries["key"].value == "naïve"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_text_that_is_not_utf8_is_an_error_with_its_line(write, newline):
    with pytest.raises(ConfigError, match=r"bridge\.properties:3: error: not UTF-8 text"):
        load(write(newline.join([b"a=1", b"# fine", "b=naïve".encode("latin-1")])), {})


def test_a_bad_escape_is_an_error_with_its_line_and_key_and_hides_nothing_after_it(found):
    problems = found("# x\nbridge.id=\\\n  \\u12G4\nmonitor.port=x")
    assert [(each.line, each.key) for each in problems] == [(2, "bridge.id"), (4, "monitor.port")]
    assert "four hexadecimal digits" in problems[0].message


def test_an_escaped_backslash_before_a_bad_escape_does_no_harm(found):
    (problem,) = found("bridge.id=\\\\u12\\u1")
    assert problem.key == "bridge.id"


@pytest.mark.parametrize(
    ("value", "reason"),
    [("\\u0000", "NUL"), ("a\0b", "NUL"), ("\\ud800", "surrogate"), ("x\\udc00", "surrogate")],
)
def test_what_is_no_character_is_an_error(found, value, reason):
    (problem,) = found(f"bridge.id={value}")
    assert problem.severity is Severity.ERROR
    assert reason in problem.message
    assert problem.line == 1


def test_a_backslash_that_gets_lost_is_a_warning(found):
    (problem,) = found('routes.x.predicate=msg.address=~"\\d+"\nroutes.x.dest.topic=t')
    assert (problem.severity, problem.line) == (Severity.WARNING, 1)
    assert problem.hint == "a backslash itself is written \\\\"


@pytest.mark.parametrize("written", ["a\\\\d", "a\\tb", "\\u0041", "a\\=b\\:c", "a\\\n  b", 'a\\"b'])
def test_a_backslash_that_means_something_is_no_problem(write, written):
    assert read(write(f"kafka.client.id={written}"))[1] == []


def test_a_file_that_is_not_there_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.properties: error: cannot be read: No such file"):
        load(tmp_path / "none.properties", {})


def test_a_folder_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, {})


def test_a_path_that_no_file_can_have_is_a_configuration_error():
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\0b"), {})


def test_a_file_of_unreasonable_size_is_a_configuration_error(write):
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load(write(b"#" * (MAX_BYTES + 1)), {})


def test_control_characters_in_a_key_do_not_reach_the_terminal(found):
    (problem,) = found("\\u001b[31mkey=1")
    assert "\x1b" not in str(problem)
    assert "\\x1b[31mkey" in str(problem)
