"""What `deploy/` holds fits the bridge that is there. What needs a tool that is missing is skipped."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.generate import exposition
from prometheus_client.parser import text_string_to_metric_families
from tests.support.monitor import watched

from isthmus import config
from isthmus.monitor.server import Monitor

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def exposed() -> dict[str, set[str]]:
    """The labels of every metric that a bridge exposes."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposition()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[str]:
    dashboard: dict[str, Any] = json.loads((DEPLOY / "grafana" / "isthmus.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_the_dashboard_shows_metrics_that_exist_by_labels_that_they_have() -> None:
    metrics = exposed()
    shown = set()
    for expression in expressions():
        for name in re.findall(r"isthmus_\w+", expression):
            assert name in metrics, expression
            shown.add(name)
            labels = set(re.findall(r"(\w+)=~?\"", expression))
            for group in re.findall(r"by \(([^)]*)\)", expression):
                labels |= set(re.split(r",\s*", group))
            assert labels <= metrics[name], expression
    assert {name for name in metrics if name.startswith("isthmus_routing")} - shown <= {
        "isthmus_routing_success_rate_total",  # the dashboard has them by route
        "isthmus_routing_failure_rate_total",
    }


def test_the_extra_all_has_every_other() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [all_of_them] = extras.pop("all")
    assert all_of_them == f"isthmus[{','.join(sorted(extras))}]"


def test_the_systemd_unit_is_in_order(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    program = tmp_path / "isthmus"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = (DEPLOY / "systemd" / "isthmus@.service").read_text()
    file = tmp_path / "isthmus@.service"
    file.write_text(unit.replace("/opt/isthmus/bin/isthmus", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "isthmus@.service")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "isthmus" in line]
    assert complaints == [], done.stderr


def test_a_bridge_can_start_with_what_the_container_says() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    said = dict(re.findall(r"(ISTHMUS_\w+)=(\S+)", "".join(re.findall(r"^ENV (.*\n)", text, re.MULTILINE))))
    assert said == {"ISTHMUS_JARS_DIR": "/opt/isthmus/jars"}
    assert config.read(ROOT / "examples" / "quickstart.properties", said).errors == ()


def test_a_bridge_can_start_with_what_the_chart_says(tmp_path: Path) -> None:
    for values in ((), ("--set", "amqp.port=5672,monitor.tokenSecret=page")):
        pieces = {each["kind"]: each for each in _rendered(values)}
        [container] = pieces["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        environ = {each["name"]: each.get("value", "a token of some length") for each in container["env"]}
        file = tmp_path / "bridge.properties"
        file.write_text(pieces["ConfigMap"]["data"]["bridge.properties"])
        reading = config.read(file, environ)
        assert reading.errors == ()
        assert reading.settings.monitor.port == 9464
        for probe in ("startupProbe", "readinessProbe"):
            [python, option, code] = container[probe]["exec"]["command"]
            assert (python, option) == ("python", "-c")
            _probe(code, environ)


def _probe(code: str, environ: dict[str, str]) -> None:
    """Have a probe ask a monitor: it goes well if, and only if, the bridge does."""
    problems: dict[str, str] = {}
    token = environ.get("ISTHMUS_MONITOR_TOKEN")
    with Monitor("127.0.0.1", 0, watched(health=lambda: problems), token=token) as monitor:
        code = code.replace("http://127.0.0.1:9464", monitor.url)

        def went_well() -> bool:
            done = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, check=False
            )
            return done.returncode == 0

        assert went_well()
        problems["kafka"] = "does not answer"
        assert not went_well()


def _rendered(values: tuple[str, ...]) -> list[dict[str, Any]]:
    """What the chart makes."""
    done = subprocess.run(
        [_helm(), "template", "orders", str(DEPLOY / "helm" / "isthmus"), *values],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def _helm() -> str:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm on this machine")
    return helm


@pytest.mark.parametrize("values", [(), ("--set", "amqp.port=5672,secret=logins,state.storageClass=fast")])
def test_the_helm_chart_is_in_order(values: tuple[str, ...]) -> None:
    for command in (["lint", "--strict"], ["template", "orders"]):
        done = subprocess.run(
            [_helm(), *command, str(DEPLOY / "helm" / "isthmus"), *values],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert ("amqp" in done.stdout) == bool(values)
    assert "kind: StatefulSet" in done.stdout
