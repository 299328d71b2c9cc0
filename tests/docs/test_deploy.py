"""What `deploy/` holds fits the bridge that is there. What needs a tool that is missing is skipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import PartMetrics, PartReport

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def exposed() -> dict[str, set[str]]:
    """The labels of every metric that a bridge exposes."""
    part = PartReport(name="p", kind="intake", system="mq", connected=True, request_times_s=[0.1])
    text = RouterMetrics("b", {"r": "t"}).exposition(PartMetrics("b", lambda: [part])).decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
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


@pytest.mark.parametrize("values", [(), ("--set", "amqp.port=5672,secret=logins,state.storageClass=fast")])
def test_the_helm_chart_is_in_order(values: tuple[str, ...]) -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm on this machine")
    for command in (["lint", "--strict"], ["template", "orders"]):
        done = subprocess.run(
            [helm, *command, str(DEPLOY / "helm" / "isthmus"), *values],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert ("amqp" in done.stdout) == bool(values)
    assert "kind: StatefulSet" in done.stdout
