"""``isthmus convert``: a captured message in any form, for people and for pipes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.support.polling import PATIENCE_S
from typer.testing import CliRunner, Result

from isthmus import AmqpMessage, AmqpValue, Data, MessageProperties
from isthmus.cli.convert import convert

GOLDEN = Path(__file__).parents[1] / "golden" / "amqp"
TEXT = GOLDEN / "text.amqp"


def run(*arguments: object, given: bytes = b"") -> Result:
    app = typer.Typer()
    app.command()(convert)
    return CliRunner().invoke(app, [str(each) for each in arguments], input=given)


def on_a_terminal(*arguments: object) -> str:
    """What the command prints when a person looks at it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "isthmus", "convert", *map(str, arguments)]
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # how a terminal ends on Linux
            pass
        finally:
            os.close(ours)
        assert process.wait(PATIENCE_S) == 0, printed
    return printed.decode().replace("\r\n", "\n")


@pytest.fixture
def order(tmp_path: Path) -> Path:
    message = AmqpMessage(
        properties=MessageProperties(to="orders"), application_properties={"n": 7}, body=AmqpValue("hello")
    )
    path = tmp_path / "order.amqp"
    path.write_bytes(message.encode())
    return path


# --- for pipes ------------------------------------------------------------------------------------------


def test_a_message_is_shown_as_its_document(order: Path) -> None:
    done = run("--from", "amqp", "--to", "json", order)
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        '{"properties":{"to":"orders"},"applicationProperties":{"n":7},'
        '"types":{"/applicationProperties/n":"long"},"body":{"type":"amqpValue","section":"hello"}}'
    )


def test_amqp_to_json_is_what_happens_without_options(order: Path) -> None:
    assert run(order).stdout == run("--from", "amqp", "--to", "json", order).stdout


@pytest.mark.parametrize("form", ["amqp", "raw"])
def test_bytes_go_into_a_pipe_as_they_arrived(form: str) -> None:
    assert run("--to", form, TEXT).stdout_bytes == TEXT.read_bytes()


def test_a_document_becomes_the_message_that_it_came_from(order: Path) -> None:
    document = run(order).stdout_bytes
    back = AmqpMessage.decode(
        run("--from", "json", "--to", "amqp", "-a", "shop", "-", given=document).stdout_bytes
    )
    assert back.body == AmqpValue("hello")
    assert back.application_properties == {"n": 7}
    assert back.properties == MessageProperties(to="orders")


def test_every_captured_message_goes_to_json_and_back() -> None:
    for path in sorted(GOLDEN.glob("*.amqp")):
        document = run(path).stdout_bytes
        back = AmqpMessage.decode(run("--from", "json", "--to", "raw", "-", given=document).stdout_bytes)
        sent = AmqpMessage.decode(path.read_bytes())
        assert back.body == sent.body
        assert back.application_properties == sent.application_properties


def test_a_jms_record_keeps_its_headers_through_a_pipe(order: Path) -> None:
    line = run("--to", "jms", order)
    assert ["jms.n", "7"] in json.loads(line.stdout)["headers"]
    back = AmqpMessage.decode(
        run("--record", "--from", "jms", "--to", "amqp", "-", given=line.stdout_bytes).stdout_bytes
    )
    assert (back.application_properties or {})["n"] == 7
    assert back.properties == MessageProperties(to="orders")


def test_a_record_as_receive_prints_it_is_read(tmp_path: Path) -> None:
    line = tmp_path / "line.json"
    line.write_text(
        '{"place": "a:b:2:17", "key": "k", "value": {"base64": "/wA="}, "headers": [["x", null]]}\n'
    )
    done = run("--record", "--from", "default", "--to", "json", line)
    document = json.loads(done.stdout)
    assert document["body"] == {"type": "data", "section": "/wA="}
    assert document["messageAnnotations"] == {
        "x-opt-bridge.partition": 2,
        "x-opt-bridge.offset": 17,
        "x-opt-bridge.key": "k",
        "x-opt-bridge.topic": "a:b",
    }


def test_the_result_goes_into_a_file_on_request(order: Path, tmp_path: Path) -> None:
    target = tmp_path / "value"
    assert run("--to", "default", "--output", target, order).stdout == ""
    assert target.read_bytes() == b"hello"


# --- what goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (["--from", "amqp"], b"\x00\x53", "error: standard input: the bytes end in the middle of a value"),
        (["--from", "json"], b"{", "error: standard input: the document is not JSON"),
        (["--from", "json"], b'{"body":1}', "error: standard input: /body: must be an object"),
        (
            ["--from", "jms", "--record"],
            b"x",
            "error: standard input: not a line of `isthmus receive --json`",
        ),
        (["--record"], b'{"value":null}', "error: standard input: the record has no value"),
        (["--record"], b'{"value":{"base64":"?"}}', "not a line of `isthmus receive --json`"),
        (["--record"], b'{"value":{}}', "not a line of `isthmus receive --json`"),
        (["--record"], b'{"value":"","place":"x"}', "not a line of `isthmus receive --json`"),
        (["--to", "jms"], AmqpMessage(body=AmqpValue(3)).encode(), "has no jms form"),
    ],
)
def test_malformed_input_is_one_clear_error(arguments: list[str], given: bytes, said: str) -> None:
    done = run(*arguments, "-", given=given)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-file"], "error: no-such-file cannot be read: No such file or directory"),
        (["--to", "xml", str(TEXT)], "error: 'xml' is not a converter: there are default, json, raw, jms"),
        (["--from", "xml", str(TEXT)], "error: 'xml' is not a converter"),
        (["--to", "no.module:C", str(TEXT)], "error: the converter no.module:C cannot be imported"),
    ],
)
def test_wrong_arguments_are_one_clear_error(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "isthmus", "convert", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# --- for people -----------------------------------------------------------------------------------------


def test_a_terminal_gets_json_indented(order: Path) -> None:
    printed = on_a_terminal("--to", "json", order)
    assert '  "properties": {\n    "to": "orders"\n  },\n' in printed


def test_a_terminal_gets_an_amqp_message_in_hex_section_by_section(order: Path) -> None:
    lines = on_a_terminal("--to", "amqp", order).splitlines()
    assert [line for line in lines if not line[0].isdigit()] == [
        "properties",
        "application-properties",
        "amqp-value",
    ]
    assert lines[-1].endswith("00 53 77 a1 05 68 65 6c 6c 6f                    .Sw..hello")


def test_a_terminal_gets_a_jms_record_with_headers_and_types(order: Path) -> None:
    lines = on_a_terminal("--to", "jms", order).splitlines()
    assert "  jms.n 7  long" in lines
    assert lines[-1] == "  hello"


@pytest.mark.parametrize("form", ["default", "json", "jms", "raw"])
def test_a_message_cannot_steer_the_terminal(form: str, tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(AmqpMessage(body=AmqpValue("\x1b[2Jgone\x9b")).encode())
    printed = on_a_terminal("--to", form, tmp_path / "message")
    assert "gone" in printed
    assert not {"\x1b", "\x9b"} & set(printed)


def test_a_terminal_gets_bytes_that_are_no_text_in_hex(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(AmqpMessage(body=Data((b"\x9b\xff gone",))).encode())
    assert on_a_terminal("--to", "default", tmp_path / "message") == (
        "00000000  9b ff 20 67 6f 6e 65                             .. gone\n"
    )
