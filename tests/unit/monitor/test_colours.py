"""Whoever sees less well can read the page, too: contrasts as WCAG 2 asks for, by day and by night."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

CSS = files("isthmus.monitor").joinpath("static", "style.css").read_text(encoding="utf-8")
SCHEMES = [
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
]
TEXT = [
    *((text, ground) for text in ("ink", "muted", "accent", "bad", "good") for ground in ("paper", "card")),
    ("accent", "accent-soft"),
    ("good", "good-soft"),
    ("bad", "bad-soft"),
    ("paper", "accent"),
]
SHAPES = [(shape, ground) for shape in ("field", "second", "good") for ground in ("paper", "card")]


def luminance(colour: str) -> float:
    shares = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES, ids=["light", "dark"])
def test_text_and_shapes_stand_out_from_their_ground(scheme: dict[str, str]) -> None:
    assert [pair for pair in TEXT if contrast(*(scheme[name] for name in pair)) < 4.5] == []
    assert [pair for pair in SHAPES if contrast(*(scheme[name] for name in pair)) < 3] == []
