"""Kafka: how its brokers are reached, and what the KafkaSink does to its topics."""
