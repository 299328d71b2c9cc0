"""Whether a broker can be reached, for those who only want to know."""

from __future__ import annotations

import asyncio

from isthmus.config.model.brokers import BrokerSettings
from isthmus.edges.amqp.client.connecting import connect
from isthmus.errors import Unreachable


def reach(broker: BrokerSettings, bridge_id: str) -> str:
    """Connect, log in and part again; returns who answered. Raises `Unreachable` with all the reasons."""
    return asyncio.run(_reach(broker, f"isthmus.{bridge_id}.doctor"))


async def _reach(broker: BrokerSettings, container_id: str) -> str:
    problems = []
    for server in broker.servers:
        try:
            connection = await connect(broker, server, container_id)
        except Unreachable as error:
            problems.append(f"{server.shown} cannot be reached: {error}")
            continue
        await connection.close()
        return f"{server.shown} answers, as {connection.opened.result()}"
    raise Unreachable("; ".join(problems))
