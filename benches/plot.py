"""Pictures of what the benchmarks measured, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

WIDTH, HEIGHT, MARGIN = 260, 180, 40


def svg(lines: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """Plots beside each other, one for a line: what grows below (logarithmic), what it costs at the side."""
    top = 1.25 * max(y for points in lines.values() for _, y in points)
    plots = "".join(
        f'<g transform="translate({number * (WIDTH + MARGIN)} 0)">{_plot(name, points, top, unit)}</g>'
        for number, (name, points) in enumerate(lines.items())
    )
    width, height = len(lines) * (WIDTH + MARGIN) + MARGIN, HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" fill="#808080" text-anchor="middle">\n{plots}</svg>\n'
    )


def _plot(name: str, points: Sequence[tuple[float, float]], top: float, unit: str) -> str:
    first, last = math.log(points[0][0]), math.log(points[-1][0])

    def place(x: float, y: float) -> tuple[int, int]:
        right = (math.log(x) - first) / (last - first) * (WIDTH - MARGIN)
        return round(1.5 * MARGIN + right), round(MARGIN + HEIGHT * (1 - y / top))

    places = [place(*point) for point in points]
    bottom = MARGIN + HEIGHT
    return "\n".join(
        [
            f'<text x="{MARGIN + WIDTH // 2}" y="{MARGIN // 2}" font-weight="bold">{name}, {unit}</text>',
            f'<path d="M{MARGIN} {MARGIN}V{bottom}H{MARGIN + WIDTH}" fill="none" stroke="#808080"/>',
            *(
                f'<path d="M{x} {y}L{next_x} {next_y}" stroke="#3b82f6" stroke-width="2"/>'
                for (x, y), (next_x, next_y) in pairwise(places)
            ),
            *(
                f'<circle cx="{x}" cy="{y}" r="4" fill="#3b82f6"/>'
                f'<text x="{x}" y="{y - 10}">{cost:.1f}</text>'
                f'<text x="{x}" y="{bottom + 18}">{many:,}</text>'
                for (x, y), (many, cost) in zip(places, points, strict=True)
            ),
            "",
        ]
    )
