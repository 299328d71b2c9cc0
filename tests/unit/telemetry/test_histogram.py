from __future__ import annotations

from isthmus.telemetry.histogram import Histogram
from isthmus.telemetry.volume import Volume


def test_a_duration_counts_in_every_bucket_that_is_not_too_short_for_it() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.002, 0.3, 100.0, -1.0):
        histogram.observe(seconds)
    buckets = dict(histogram.buckets)
    assert buckets["0.001"] == 2
    assert buckets["0.0025"] == 3
    assert buckets["0.25"] == 3
    assert buckets["0.5"] == 4
    assert buckets["60.0"] == 4
    assert buckets["+Inf"] == 5
    assert histogram.sum_s == 100.303


def test_bytes_are_what_went_by_times_the_size_that_was_last_measured() -> None:
    volume = Volume()
    assert volume.until(50) == 0
    volume.measure(100, 50)
    assert volume.until(100) == 10_000
    volume.measure(100, 100)
    assert volume.until(150) == 15_000


def test_bytes_never_fall_and_do_not_judge_what_is_past_by_a_size_of_today() -> None:
    volume = Volume()
    volume.measure(1_000, 1)
    assert volume.until(1_000) == 1_000_000
    volume.measure(200, 1_000)
    assert volume.until(1_000) == 1_000_000
    assert volume.until(1_001) == 1_000_900
