"""An honest client beside hostile ones: see `benches.hostile.__main__`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    from benches.hostile.__main__ import main as run

    run(arguments)
