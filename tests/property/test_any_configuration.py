"""Whatever a file holds, the answer is settings or a `ConfigError`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus.config import Settings, Severity, check, dump, load
from isthmus.config.judgement.keys import all_keys
from isthmus.errors import ConfigError

KEYS = [key.name.replace("<route>", "x").replace("*", "y") for key in all_keys()]
FRAGMENTS = [
    *KEYS,
    "=",
    "\\u",
    "\\u00",
    "\\",
    "\n",
    "\r\n",
    "#",
    " ",
    "${env:X}",
    "${file:",
    "}",
    "msg.address==",
    "\x00",
    "é",
]

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


def answer(path: Path, environ: dict[str, str]) -> Settings | ConfigError:
    try:
        return load(path, environ)
    except ConfigError as error:
        return error


def assert_answered(path: Path, environ: dict[str, str] | None = None) -> None:
    answered = answer(path, environ or {})
    problems = check(path, environ or {}, None)
    assert isinstance(answered, ConfigError) == any(each.severity is Severity.ERROR for each in problems)
    texts = [str(each) for each in problems]
    if isinstance(answered, Settings):
        texts += [str(dump(answered)), repr(answered)]
    for text in texts:
        assert text.encode().decode() == text


@quick
@given(content=st.binary(max_size=200))
def test_any_bytes_are_answered(write, content):
    assert_answered(write(content))


@quick
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=25))
def test_any_broken_configuration_is_answered(write, fragments):
    assert_answered(write("".join(fragments)))


def java_escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@pytest.mark.parametrize("key", KEYS)
@settings(quick, max_examples=5)
@given(text=st.text(alphabet=st.characters(codec=None), max_size=20))
def test_any_text_as_the_value_of_any_key_is_answered(write, key, text):
    route = "routes.x.predicate=msg.address==a\nroutes.x.dest.topic=t\n"
    assert_answered(write(f"{route}{key}={java_escaped(text)}\n"))
    assert_answered(write(f"{route}{key}=${{env:V}}\n"), {"V": text})


@quick
@given(name=st.text(max_size=20), value=st.text(max_size=20))
def test_any_environment_is_answered(write, name, value):
    assert_answered(write("bridge.id=x\n"), {f"ISTHMUS_{name.upper()}": value})
