"""A Kafka of one broker that does what a test says: what no real one can be made to do when it is wanted.

It speaks as much of the protocol as an idempotent producer needs: ApiVersions 0, Metadata 11, InitProducerId
0 and Produce 3. Records are not looked into.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from typing import NamedTuple, Self

from isthmus.kafka.requests import MetadataRequest_v11, MetadataResponse_v11

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
_VERSIONS = {PRODUCE: 3, METADATA: 11, API_VERSIONS: 0, INIT_PRODUCER_ID: 0}

NO_LEADER = -1
UNKNOWN_TOPIC = 3
NOT_LEADER = 6
NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
OUT_OF_ORDER_SEQUENCE_NUMBER = 45


class Written(NamedTuple):
    """A batch that was asked for, whatever the answer was."""

    partition: int
    producer: int
    sequence: int
    records: int


class ScriptedKafka:
    """What it answers are its attributes, which a test may change at any time."""

    def __init__(self, port: int, *, topic: str = "journal", partitions: int = 2) -> None:
        self.port = port
        self.advertised_port = port
        self.topic = topic
        self.partitions = partitions
        self.leader = 1
        self.has_topic = True
        self.produce_error = 0
        self.producer_error = 0
        self.answers_to_lose = 0
        """How many answers to writes are lost with their connection."""
        self.requests: Counter[int] = Counter()
        self.written: list[Written] = []
        self._producers = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Be away: without a word, as after kill -9."""
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections):
                connection.transport.abort()
            await asyncio.sleep(0.01)
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, version, correlation, name_length = struct.unpack(">hhih", request[:10])
                assert version == _VERSIONS[key]
                self.requests[key] += 1
                tags = b"\0" if key == METADATA else b""
                answer = tags + self._answer(key, request[10 + max(name_length, 0) + len(tags) :])
                if key == PRODUCE and self.answers_to_lose:
                    self.answers_to_lose -= 1
                    writer.transport.abort()
                writer.write(struct.pack(">ii", 4 + len(answer), correlation) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone, or we are
        finally:
            self._connections.discard(writer)
            writer.close()

    def _answer(self, key: int, request: bytes) -> bytes:
        if key == API_VERSIONS:
            ranges = [struct.pack(">hhh", api, 0, version) for api, version in _VERSIONS.items()]
            return struct.pack(">hi", 0, len(ranges)) + b"".join(ranges)
        if key == METADATA:
            return self._metadata(asks_for_topics=bool(MetadataRequest_v11.decode(request).topics))
        if key == INIT_PRODUCER_ID:
            self._producers += 1
            return struct.pack(">ihqh", 0, self.producer_error, self._producers, 0)
        return self._produce(request)

    def _metadata(self, *, asks_for_topics: bool) -> bytes:
        broker = (1, "127.0.0.1", self.advertised_port, None, {})
        partitions = [(0, number, self.leader, 0, [1], [1], [], {}) for number in range(self.partitions)]
        topic = (0, self.topic, bytes(16), False, partitions, -(2**31), {})
        missing = (UNKNOWN_TOPIC, self.topic, bytes(16), False, [], -(2**31), {})
        topics = [topic if self.has_topic else missing] if asks_for_topics else []
        answer: bytes = MetadataResponse_v11(0, [broker], "cluster", 1, topics, {}).encode()
        return answer

    def _produce(self, request: bytes) -> bytes:
        place = 2 + 6  # no transaction; acks and time-out
        (topics,) = struct.unpack_from(">i", request, place)
        assert topics == 1
        place += 4 + 2 + len(self.topic)
        (partitions,) = struct.unpack_from(">i", request, place)
        place += 4
        answer = struct.pack(">i", 1) + _text(self.topic) + struct.pack(">i", partitions)
        for _ in range(partitions):
            partition, size = struct.unpack_from(">ii", request, place)
            producer, _, sequence, records = struct.unpack_from(">qhii", request, place + 8 + 43)
            self.written.append(Written(partition, producer, sequence, records))
            answer += struct.pack(">ihqq", partition, self.produce_error, 0, -1)
            place += 8 + size
        return answer + struct.pack(">i", 0)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
