"""Pictures of what was measured show it."""

from __future__ import annotations

from xml.etree import ElementTree

from benches.plot import svg

SVG = "{http://www.w3.org/2000/svg}"


def test_a_plot_has_a_point_for_each_measurement_where_it_belongs() -> None:
    picture = ElementTree.fromstring(
        svg({"routes": [(10, 4.0), (100, 5.0), (1_000, 8.0)], "keys": [(1, 2.0), (9, 2.0)]}, "µs")
    )
    routes, keys = ([point.attrib for point in plot.iter(f"{SVG}circle")] for plot in picture)
    across, down = ([int(point[axis]) for point in routes] for axis in ("cx", "cy"))
    assert across[1] - across[0] == across[2] - across[1] > 0
    assert down[0] > down[1] > down[2], "what costs more is higher up"
    assert keys[0]["cy"] == keys[1]["cy"]
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts == [
        "routes, µs",
        "4.0",
        "10",
        "5.0",
        "100",
        "8.0",
        "1,000",
        "keys, µs",
        "2.0",
        "1",
        "2.0",
        "9",
    ]
