"""Routes that a reload brings are tried before anything changes, unless they run already."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.support.names import unique

from isthmus.config import Settings
from isthmus.config.model.settings import KafkaSettings
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.pipeline.run import Pipeline
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route


def test_spark_analyses_routes_that_are_new_and_no_others(kafka_servers: str, tmp_path: Path) -> None:
    kafka, topic = Kafka(kafka_servers), unique("orders")
    settings = Settings(
        bridge_id=unique("try-out"),
        state_dir=str(tmp_path),
        kafka=KafkaSettings(bootstrap_servers=kafka_servers),
        routes=(Route("orders", parse("msg.address==orders"), topic),),
    )
    create_topics(kafka, [topic], 1)
    make_own_topics(settings, kafka)
    pipeline = Pipeline(settings, kafka)
    analysed: list[object] = []
    pipeline._starts = cast("Any", SimpleNamespace(try_out=analysed.append))

    plan = pipeline.try_out(settings)
    assert analysed == [plan]
    pipeline._plan = plan
    assert pipeline.try_out(settings) == plan
    assert analysed == [plan]
