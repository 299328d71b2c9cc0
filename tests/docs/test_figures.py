"""Figures of speed stand in docs/benchmarks.md; other pages quote them, and nothing that was not measured."""

from __future__ import annotations

import re

import pytest
from tests.support.commands import ROOT

MEASURED = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
QUOTING = {
    "README.md": "How fast",
    "docs/latency.md": "Latency",
    "docs/sizing.md": "Rates to begin with",
    "docs/why-spark.md": "What it costs",
}
"""Pages that quote, and the section in which they do."""


@pytest.mark.parametrize("page", QUOTING)
def test_a_figure_that_a_page_quotes_was_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.search(rf"^#+ {QUOTING[page]}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section
    figures = re.findall(r"\d+(?:,\d{3})+|\d+\.\d+", section[1])
    assert figures
    assert [figure for figure in figures if figure not in MEASURED] == []
