"""Connects to a broker: a socket, with TLS if it is to be, and a login that shows nobody the password."""

from __future__ import annotations

import asyncio
import os
import ssl

from isthmus.config.model.brokers import BrokerSettings, Server
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.protocol import Connection, Limits, Open, SaslClient
from isthmus.edges.amqp.protocol.sasl import ANONYMOUS, EXTERNAL, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from isthmus.errors import LoginRefused, Unreachable


async def connect(
    broker: BrokerSettings, server: Server, container_id: str, *, timeout_s: float = 10.0
) -> BrokerConnection:
    """An open connection. Raises `Unreachable`, and `LoginRefused` if trying again does not help."""
    loop = asyncio.get_running_loop()
    limits = Limits(idle_timeout_s=broker.idle_timeout_s)
    sasl = SaslClient(
        server.user,
        None if server.password is None else str.__str__(server.password),
        mechanisms=mechanisms(broker, server),
        hostname=server.host,
    )
    connection = BrokerConnection(Connection.client(limits, sasl), Open(container_id, hostname=server.host))
    try:
        async with asyncio.timeout(timeout_s):
            await loop.create_connection(
                lambda: connection,
                server.host,
                server.port,
                ssl=broker.tls_context() if server.tls else None,
                server_hostname=server.host if server.tls else None,
            )
            await asyncio.shield(connection.opened)
    except ssl.SSLCertVerificationError as error:
        raise LoginRefused(f"its certificate is not trusted: {error.verify_message}") from None
    except TimeoutError:
        raise Unreachable(f"no answer within {timeout_s:g} s") from None
    except ConnectionError as error:  # whose own text repeats where it went
        raise Unreachable(os.strerror(error.errno) if error.errno else str(error)) from None
    except OSError as error:
        raise Unreachable(error.strerror or str(error)) from None
    finally:
        if not connection.is_open:
            connection.abort()
            if not connection.opened.done():
                connection.opened.cancel()
    return connection


def mechanisms(broker: BrokerSettings, server: Server) -> tuple[str, ...]:
    """The ways to say who we are, the best first. A password is shown to nobody who listens on the way."""
    found = [EXTERNAL] if server.tls and broker.tls_cert else []
    if server.user is not None:
        found += [SCRAM_SHA_512, SCRAM_SHA_256]
        if server.tls or broker.plain_without_tls or server.is_this_machine:
            found.append(PLAIN)
    return tuple(found) or (ANONYMOUS,)
