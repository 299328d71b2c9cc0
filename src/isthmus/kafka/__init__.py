"""Kafka, for every part of the bridge."""
