from __future__ import annotations

from isthmus.connectors import replies
from isthmus.connectors.replies import PATIENCE_S, Inboxes
from isthmus.edges.mq.replies import Requester


def asked(inbox: str) -> Requester:
    return Requester(inbox, "bridge")


def test_a_requester_is_forgotten_after_a_while() -> None:
    now = [0.0]
    inboxes = Inboxes(now_s=lambda: now[0])
    inboxes.remember(b"a", asked("_INBOX.a"))
    now[0] = PATIENCE_S - 1
    inboxes.remember(b"b", asked("_INBOX.b"))
    assert inboxes.requester(b"a") == asked("_INBOX.a")
    now[0] = PATIENCE_S + 1
    assert inboxes.requester(b"a") is None
    assert inboxes.requester(b"b") == asked("_INBOX.b")


def test_the_oldest_requesters_make_room_for_new_ones(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(replies, "MOST_REQUESTS", 2)
    inboxes = Inboxes()
    for number in range(3):
        inboxes.remember(b"%d" % number, asked(f"_INBOX.{number}"))
    assert [inboxes.requester(b"%d" % number) for number in range(3)] == [
        None, asked("_INBOX.1"), asked("_INBOX.2"),
    ]  # fmt: skip


def test_an_answer_may_come_in_several_parts() -> None:
    inboxes = Inboxes()
    inboxes.remember(b"a", asked("_INBOX.a"))
    assert [inboxes.requester(b"a"), inboxes.requester(b"a")] == [asked("_INBOX.a")] * 2
