"""What `isthmus.edges.mq.port` promises, as checks that any queue manager can be put to.

In: a queue manager, an empty queue, a model queue and a topic string. Out: for each check whether it holds,
and what was found where it does not. Nothing is asked that an application may not do: no object is defined,
nothing is restarted. The queue is empty again afterwards, and the one durable subscription is taken up and
emptied, not removed.

A check is a function with a sentence for a name. It fails by raising `ContractBroken`; `NOT_AUTHORIZED` means
that it could not be tried. The project's own tests run the same checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from isthmus.edges.mq import reasons
from isthmus.errors import HardFailure, MqError
from isthmus.testing.mq_contract.checks import CHECKS, Check, name_of
from isthmus.testing.mq_contract.site import ContractBroken, Site, drain

__all__ = ["CHECKS", "Check", "ContractBroken", "Result", "Site", "name_of", "run"]


class Result(NamedTuple):
    """What became of a check."""

    name: str
    state: Literal["ok", "not tried", "broken"]
    said: str = ""


def run(site: Site) -> Iterator[Result]:
    """Put the queue manager to all checks, one after the other.

    Raises `HardFailure` if it cannot be reached, or the queue has messages, which would be lost.
    """
    _ensure_empty(site)
    for check in CHECKS:
        yield _result(check, site)
        _empty(site)


def _result(check: Check, site: Site) -> Result:
    name = name_of(check)
    try:
        check(site)
    except MqError as error:
        state: Literal["not tried", "broken"] = "broken"
        if error.reason == reasons.NOT_AUTHORIZED:
            state = "not tried"
        return Result(name, state, str(error))
    except ContractBroken as broken:
        return Result(name, "broken", str(broken))
    except Exception as error:  # the suite goes on, and its report has it
        return Result(name, "broken", f"{type(error).__name__}: {error}")
    finally:
        site.close()
    return Result(name, "ok")


def _ensure_empty(site: Site) -> None:
    try:
        source = site.connect().open_queue(site.queue)
        waiting = source.get()
    except MqError as error:
        raise HardFailure(
            f"{site.manager.description}: {error}",
            remedy="check where the queue manager is, the login, and that the queue may be read and written",
        ) from error
    finally:
        site.close()  # which backs out
    if waiting is not None:
        raise HardFailure(
            f"the queue {site.queue} has messages, which the checks would remove",
            remedy="name an empty queue that nothing else uses with --mq-queue",
        )


def _empty(site: Site) -> None:
    connection = site.connect()
    try:
        drain(connection, connection.open_queue(site.queue))
    except MqError:
        pass  # the next check tells
    finally:
        site.close()
