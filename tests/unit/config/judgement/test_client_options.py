"""Options of Kafka's clients: their names and values are judged before a client sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from isthmus.config import Severity
from isthmus.config.judgement import client_options as table
from isthmus.embedded.jars import files
from isthmus.embedded.java import java_command

DUMP = """
import java.util.*;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

public class Dump {
    public static void main(String[] none) {
        for (var options : List.of(
                ProducerConfig.configDef(), ConsumerConfig.configDef(), AdminClientConfig.configDef()))
            for (var each : options.configKeys().values())
                System.out.println(each.name + "\\t" + each.type);
    }
}
"""
SERVERS = "kafka.bootstrap.servers=h:1\n"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("acks=banana", "expected all, -1, 0 or 1"),
        ("linger.ms=soon", "expected a whole number of at least 0"),
        ("max.poll.records=0", "expected a whole number of at least 1"),
        ("compression.lz4.level=18", "expected a whole number from 1 to 17"),
        ("sasl.login.refresh.window.jitter=0.3", "expected a number from 0 to 0.25"),
        ("security.protocol=TLS", "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("check.crcs=yes", "expected true or false"),
        ("group.id=mine", "the bridge sets this itself for each of its clients"),
    ],
)
def test_a_value_that_clients_do_not_take_is_an_error_in_its_line(found, option: str, expected: str) -> None:
    errors = [each for each in found(f"{SERVERS}kafka.{option}") if each.severity is Severity.ERROR]
    assert [(each.line, each.message) for each in errors] == [(2, expected)]


@pytest.mark.parametrize(
    "option", ["acks=all", "linger.ms=5", "security.protocol=sasl_ssl", "enable.idempotence=TRUE"]
)
def test_values_that_clients_take_are_no_problem(found, option: str) -> None:
    assert not [each for each in found(f"{SERVERS}kafka.{option}") if each.line == 2]


def test_an_option_that_no_client_has_is_a_warning_with_the_one_that_was_meant(found) -> None:
    (problem,) = (each for each in found(f"{SERVERS}kafka.security.protcol=SSL") if each.line == 2)
    assert (problem.severity, problem.hint) == (Severity.WARNING, "did you mean kafka.security.protocol?")


def test_the_table_is_that_of_the_client_that_spark_has(tmp_path: Path) -> None:
    source = tmp_path / "Dump.java"
    source.write_text(DUMP)
    spark = Path(pyspark.__file__).parent / "jars"
    path = ":".join(map(str, [*files("spark"), *spark.glob("*slf4j*"), *spark.glob("*log4j*")]))
    told = subprocess.run([java_command(), "-cp", path, source], capture_output=True, text=True, check=True)
    rows = (line.split("\t") for line in told.stdout.splitlines() if "\t" in line)
    types = {name: kind for name, kind in rows if not name.startswith("internal.")}
    assert types.keys() - {"bootstrap.servers"} == table.KNOWN
    rest = types.keys() - table.OWN
    assert {name for name in rest if types[name] == "BOOLEAN"} == table.FLAGS
    assert {name for name in rest if types[name] in ("SHORT", "INT", "LONG")} == table.NUMBERS.keys()
    assert {name for name in rest if types[name] == "DOUBLE"} == table.FRACTIONS.keys()
