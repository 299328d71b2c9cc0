"""The commands that write into a journal, and what the ledger makes of that."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import text_message
from tests.support.pipeline.ledger_bridge import LedgerBridge, bodies, transaction
from typer.testing import CliRunner, Result

from isthmus.cli import app
from isthmus.cli.show import record_of
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op


class Commands:
    """The commands, on the journal of a ledger."""

    def __init__(self, ledger: LedgerBridge, file: Path) -> None:
        self.ledger = ledger
        self._file = file
        file.write_text(
            f"kafka.bootstrap.servers={ledger.kafka.servers}\n"
            f"journal.topic={ledger.plan.journal_topic}\n"
            "pipeline.queries=router,ledger\n"
        )

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["journal", *arguments, str(self._file)])

    def done(self, *arguments: str) -> None:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        assert self.ledger.plan.journal_topic in result.output

    def live_ops(self) -> list[Op]:
        return [layout.op_of(record_of(each)) for each in self.ledger.live()]


@pytest.fixture
def commands(kafka_servers: str, tmp_path: Path, spark: SparkSession) -> Commands:
    return Commands(LedgerBridge(kafka_servers, tmp_path, spark), tmp_path / "bridge.properties")


def test_a_message_is_annotated_and_deleted_with_its_annotations(commands: Commands) -> None:
    kept, gone = text_message("q", "kept"), text_message("q", "gone")
    commands.ledger.write(Entry(Op.ADD, kept), Entry(Op.ADD, gone))
    commands.done("annotate", "--id", kept.id, "--id", gone.id, "-H", "seen=yes", "-p", "n:int=3")
    commands.ledger.run()
    assert sorted(commands.live_ops()) == [Op.ADD, Op.ADD, Op.ANNOTATE, Op.ANNOTATE]

    commands.done("delete", "--id", gone.id)
    commands.ledger.run()
    live = [layout.decode(record_of(each)) for each in commands.ledger.live()]
    assert {each.message.id for each in live if each.op is not Op.DELETE} == {kept.id}
    (note,) = [each.message for each in live if each.op is Op.ANNOTATE]
    assert (note.headers["seen"].text, note.headers["n"].value) == ("yes", 3)


def test_what_the_ledger_has_deleted_is_shown_as_a_tombstone(commands: Commands) -> None:
    commands.ledger.write(Entry(Op.ADD, gone := text_message("q", "gone")))
    commands.done("delete", "--id", gone.id)
    commands.ledger.run()
    shown = commands.run().output
    assert f"tombstone  key {gone.id}" in shown
    assert "not a journal record" not in shown


def test_an_operator_prepares_and_ends_transactions(commands: Commands) -> None:
    ledger = commands.ledger
    ledger.write(
        *transaction("kept", ["a", "b"], None, session="one"),
        *transaction("dropped", ["c"], None, session="two"),
    )
    commands.done("prepare", "--transaction", "kept")
    ledger.run()
    assert ledger.added() == []

    commands.done("commit", "--transaction", "kept")
    commands.done("rollback", "--transaction", "dropped", "--session", "two")
    ledger.run()
    assert bodies(ledger.added()) == ["a", "b"]


def test_a_transaction_that_nobody_or_more_than_one_session_has_is_refused(commands: Commands) -> None:
    commands.ledger.write(
        *transaction("twin", ["a"], None, session="one"), *transaction("twin", ["b"], None, session="two")
    )
    for arguments, said in (
        (("commit", "--transaction", "none"), "the journal has no records of a transaction 'none'"),
        (("commit", "--transaction", "twin"), "several sessions have it: --session one, two"),
    ):
        failed = commands.run(*arguments)
        assert failed.exit_code != 0
        assert said in str(failed.exception)


def test_a_journal_is_shown_by_its_name_alone(commands: Commands) -> None:
    commands.ledger.write(Entry(Op.ADD, text_message("q", "hello")))
    for short in ((), ("show",), ("--where", "msg.address==q")):
        assert "hello" in commands.run(*short).output


def test_an_annotation_without_headers_is_wrong_usage(commands: Commands) -> None:
    failed = commands.run("annotate", "--id", "ID:1")
    assert failed.exit_code == 2
    assert "an annotation needs" in failed.output
