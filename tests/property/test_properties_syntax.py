"""Our reader of Java properties reads what another implementation reads."""

from __future__ import annotations

import javaproperties
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus.config.syntax.properties import read, reason_against

PIECES = [*"ab=: \t\f\\\n\r#!u0é", "\\", "\r\n", "\\u00e9", "\\ud83d\\ude00", "\\u12", " = ", "\\\n"]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(text=st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_keys_and_values_are_those_of_another_reader(write, text):
    entries, problems = read(write(text.encode()))
    assert entries is not None
    broken = any("four hexadecimal digits" in each.message for each in problems)
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        assert broken
    else:
        assert not broken
        # A text that can be no value is refused here, and read there.
        usable = {
            key: None if reason_against(key) or reason_against(value) else value
            for key, value in expected.items()
        }
        assert {key: entry.value for key, entry in entries.items()} == usable


def test_a_line_that_goes_on_for_the_whole_file_is_read(write):
    entries, problems = read(write(b"a=" + b"b\\\n" * 300_000))
    assert problems == []
    assert entries is not None
    assert entries["a"].value == "b" * 300_000
