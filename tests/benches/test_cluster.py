"""The small form of the benchmark of a cluster: in a file of its own, for it takes as long as all others."""

from __future__ import annotations

from tests.support.benches import NONE, last_lines


def test_a_cluster_is_measured_beside_one_machine() -> None:
    [last] = last_lines("benches.cluster").values()
    assert {"ratio", "cluster_per_s", "local_per_s", "sent", "journaled"} <= last.keys()
    assert {fault: last[fault] for fault in NONE if fault in last}.items() <= NONE.items()
