from __future__ import annotations

import pytest

from isthmus.routing.reserved import BY_PREFIX, ReservedTopics

RESERVED = ReservedTopics(journal="log", dead_letters="failed")


@pytest.mark.parametrize(
    "address", ["log", "failed", "failed.quarantine", "failed/quarantine", "isthmus.b.replays", "__offsets"]
)
def test_no_address_leads_to_a_topic_of_the_bridges_own(address: str) -> None:
    assert address in RESERVED


@pytest.mark.parametrize("address", ["orders", "failed.orders", "log.quarantine"])
def test_others_are_for_everyone(address: str) -> None:
    assert address not in RESERVED


def test_without_dead_letters_there_is_no_quarantine() -> None:
    assert "None.quarantine" not in BY_PREFIX
